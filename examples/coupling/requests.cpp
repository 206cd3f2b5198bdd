// The requests of requests.c, with the C++ interface.
//
//   c++ -std=c++17 -O2 -I include -o requests examples/coupling/requests.cpp -lcxlab
//   ./requests SCENARIO REQUESTS GAP_PS
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "cxlab.hpp"

namespace {

// The numbers of a xorshift generator.
struct Generator {
    std::uint64_t state = 0x9e3779b97f4a7c15;

    std::uint64_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state;
    }
};

// How many requests have completed, and a hash (FNV-1a) of their ids and times in their order.
struct Sum {
    std::uint64_t count = 0;
    std::uint64_t hash = 0xcbf29ce484222325;

    void add(std::uint64_t number) {
        for (int byte = 0; byte < 8; byte++) {
            hash = (hash ^ (number >> (8 * byte) & 0xff)) * 0x100000001b3;
        }
    }
};

void check(cxlab::Status status) {
    if (!status) {
        std::fprintf(stderr, "error: %s\n", status.text());
        std::exit(2);
    }
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: requests SCENARIO REQUESTS GAP_PS\n");
        return 2;
    }
    const std::uint64_t requests = std::strtoull(argv[2], nullptr, 10);
    const std::uint64_t gap = std::strtoull(argv[3], nullptr, 10);

    Sum sum;
    cxlab::System system;
    check(system.open(cxlab::Options().path(argv[1])));
    cxlab::Port port;
    check(system.find_port("outside", port));
    const std::uint64_t lines = port.info().memory_bytes / 64;
    // Taken from a list after each step, where the program in C is called back.
    const auto take = [&] {
        cxlab::Completed completed;
        while (system.take(completed)) {
            sum.count++;
            sum.add(completed.id);
            sum.add(completed.issued);
            sum.add(completed.completed);
        }
    };

    Generator generator;
    std::uint64_t time = 0;
    for (std::uint64_t id = 0; id < requests; id++) {
        const std::uint64_t address = generator.next() % lines * 64;
        const bool write = generator.next() % 4 == 0;
        check(system.advance(time));
        take();
        cxlab::Status status = port.submit(id, address, 64, write, time);
        while (status.code() == CXLAB_ERROR_FULL) {
            time = system.next_event() + 1;
            check(system.advance(time));
            take();
            status = port.submit(id, address, 64, write, time);
        }
        check(status);
        time += 1 + generator.next() % (2 * gap);
    }
    check(port.close());
    check(system.drain());
    take();
    std::printf("completed %" PRIu64 " hash %016" PRIx64 " digest %016" PRIx64 "\n", sum.count, sum.hash,
                system.digest());
    return 0;
}
