// expect: error
int number = "text";
