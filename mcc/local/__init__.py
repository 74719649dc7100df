"""Everything on one machine: Redis, API, drones and Flower as one supervised family."""
