// expect: an error
int main() {}
