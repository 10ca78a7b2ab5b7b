"""What is done about damage and retention: repair, salvage, retire."""
