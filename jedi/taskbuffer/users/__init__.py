"""SQL about people, their tokens, and the notices that go to them."""
