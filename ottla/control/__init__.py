"""What people steer: a broker's life in its process. Behind HTTP with a token, and the same for all who ask."""
