# Half of what the compiler does for a small file is reading these. They are read once a target; that no
# file relies on it shows in the sanitizers' presets, which do without.
set(LOCKSTEP_PRECOMPILED <fmt/format.h> <algorithm> <functional> <map> <memory> <mutex> <string> <vector>)
