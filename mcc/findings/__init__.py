"""What can be found to be wrong with orders and drones: findings, and the state that they are found in."""
