// Included before every source of a simulator that waits for a key before it ends its process. A
// medium has no console, so the wait is left out. Licensed like cxlab, under Apache-2.0 or MIT.
#ifndef CXLAB_ADAPTERS_NO_CONSOLE_HPP
#define CXLAB_ADAPTERS_NO_CONSOLE_HPP

#include <iostream>

namespace std {
struct CxlabNoConsole {
    int get() const { return 0; }
};
inline constexpr CxlabNoConsole cxlab_no_console;
} // namespace std

#define cin cxlab_no_console

#endif
