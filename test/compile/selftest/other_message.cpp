// expect: the moon is made of cheese
#ifndef KVPAGE_CONTROL
int number = "text";
#endif
