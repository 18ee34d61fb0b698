"""What clients send: read, checked, booked and handed to a learner; who may send, and how much."""
