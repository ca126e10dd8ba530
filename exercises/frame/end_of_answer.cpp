// Linked right after the answer, so that the answer's variables end here (statics.h).

extern "C" {
extern char lockstep_end_of_values[1], lockstep_end_of_zeros[1];
char lockstep_end_of_values[1] = {1};
char lockstep_end_of_zeros[1] = {};
}
