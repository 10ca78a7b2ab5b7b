"""Where agents can and can't go: obstacles, polygon corners, grids, the place on the globe."""
