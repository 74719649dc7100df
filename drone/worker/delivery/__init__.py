"""What follows the work of an order that is to be delivered."""
