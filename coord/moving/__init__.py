"""How agents move: straight, around obstacles, on grids, without conflicts; who is near whom."""
