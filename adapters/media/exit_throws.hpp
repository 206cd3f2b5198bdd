// Included before every source of a simulator that ends its process when it finds an error. There
// `exit` throws instead, so that the error can be reported as one of the configuration. Licensed
// like cxlab, under Apache-2.0 or MIT.
#ifndef CXLAB_ADAPTERS_EXIT_THROWS_HPP
#define CXLAB_ADAPTERS_EXIT_THROWS_HPP

#include <cstdlib>
#include <stdexcept>

namespace cxlab {
/// The simulator has called `exit`.
struct SimulatorExit : std::runtime_error {
    using std::runtime_error::runtime_error;
};
} // namespace cxlab

namespace std {
[[noreturn]] inline void cxlab_exit_throws(int) {
    throw ::cxlab::SimulatorExit("it ends its process");
}
} // namespace std
using std::cxlab_exit_throws;

#define exit cxlab_exit_throws

#endif
