"""Tables, columns, guards and views as they are declared, and the migrations between them."""
