// Linked right before the answer, so that the answer's variables begin here (statics.h): variables
// with an initial value in one section, zeros in another.

extern "C" {
extern char lockstep_begin_of_values[1], lockstep_begin_of_zeros[1];
char lockstep_begin_of_values[1] = {1};
char lockstep_begin_of_zeros[1] = {};
}
