int number = "text";
