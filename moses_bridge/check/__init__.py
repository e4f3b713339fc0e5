"""What is wrong, or odd, in a phrase table and its moses.ini."""
