"""Sites, storage and links: operators' files, the brokers' snapshot and decisions."""
