// A program with caches of its own above the ports of a CXL system: processors that add to shared counters. Each has
// a cache with the bytes of a few lines. The system keeps the caches coherent with each other and with the caches of
// its own hosts, so that no addition is lost.
//
//   c++ -std=c++17 -O2 -I include -o caches examples/coupling/caches.cpp -lcxlab
//   ./caches SCENARIO ADDITIONS
//
// All ports of the scenario have `snooped = true`. A third argument, "deaf", lets the caches ignore what the system
// asks them to do: then additions are lost.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "cxlab.hpp"

namespace {

constexpr std::uint64_t counters = 24;  // One in a line, from address 0 on.
constexpr std::size_t capacity = 6;     // Lines of a cache.
constexpr std::size_t in_flight = 4;    // Requests of a processor.

void check(cxlab::Status status) {
    if (!status) {
        std::fprintf(stderr, "error: %s\n", status.text());
        std::exit(2);
    }
}

// What a request does with a line.
enum class Kind { read, add, write_back };

struct Line {
    std::uint64_t value = 0;
    bool may_change = false;
    bool changed = false;
};

// A processor with its cache.
struct Processor {
    cxlab::Port port;
    std::uint64_t state = 0;      // Of the random numbers.
    std::uint64_t additions = 0;  // Still to be made.
    std::map<std::uint64_t, Line> lines;
    std::map<std::uint64_t, Kind> requests;  // By address: one of each line.

    std::uint64_t random(std::uint64_t end) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (state >> 33) % end;
    }
    void store(std::uint64_t address, const Line &line) {
        check(port.write(address, &line.value, sizeof line.value));
    }
    void add(Line &line) {
        line.value++;
        line.changed = true;
        additions--;
    }
    // The cache gives up a line, if it is full.
    void make_room(std::uint64_t now) {
        if (lines.size() < capacity) {
            return;
        }
        auto victim = lines.begin();
        std::advance(victim, random(lines.size()));
        const auto [address, line] = *victim;
        if (line.changed && requests.count(address) != 0) {
            return;
        }
        lines.erase(victim);
        if (line.changed) {
            store(address, line);
            check(port.write_back(address, address, 64, now));
            requests[address] = Kind::write_back;
        }
    }
    void issue(std::uint64_t now) {
        while (additions > 0 && requests.size() < in_flight) {
            const std::uint64_t address = random(counters) * 64;
            const auto line = lines.find(address);
            if (requests.count(address) != 0) {
                return;
            }
            if (line != lines.end() && line->second.may_change) {
                add(line->second);
                return;
            }
            const bool read = line == lines.end() && random(2) == 0;
            make_room(now);
            check(port.submit(address, address, 64, !read, now));
            requests[address] = read ? Kind::read : Kind::add;
        }
    }
    void completed(const cxlab::Completed &done) {
        const Kind kind = requests[done.id];
        requests.erase(done.id);
        if (kind == Kind::write_back) {
            return;
        }
        Line &line = lines[done.id];
        check(port.read(done.id, &line.value, sizeof line.value));
        line.may_change = done.outcome == CXLAB_SERVED;
        if (kind == Kind::add && additions > 0) {
            add(line);
        }
    }
    // Gives up or shares a line. Returns whether it was changed; the memory has it then.
    bool snooped(const cxlab::Snoop &snoop) {
        const auto written = requests.find(snoop.address);
        bool changed = written != requests.end() && written->second == Kind::write_back;
        if (const auto line = lines.find(snoop.address); line != lines.end()) {
            if (line->second.changed) {
                store(snoop.address, line->second);
                changed = true;
            }
            line->second.may_change = line->second.changed = false;
            if (snoop.invalidate != 0) {
                lines.erase(line);
            }
        }
        return changed;
    }
};

}  // namespace

int main(int argc, char **argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: caches SCENARIO ADDITIONS [deaf]\n");
        return 2;
    }
    const std::uint64_t additions = std::strtoull(argv[2], nullptr, 10);
    const bool deaf = argc > 3 && std::strcmp(argv[3], "deaf") == 0;

    cxlab::System system;
    check(system.open(cxlab::Options().path(argv[1])));
    std::vector<Processor> processors(system.port_count());
    for (std::uint32_t number = 0; number < processors.size(); number++) {
        processors[number].port = system.port(number);
        processors[number].state = number + 1;
        processors[number].additions = additions;
    }
    std::uint64_t invalidated = 0, shared = 0, changed = 0;
    bool busy = true;
    while (busy) {
        // Each event is handled alone, so that the processors see everything when it happens.
        const std::uint64_t now = system.now();
        busy = false;
        for (Processor &processor : processors) {
            processor.issue(now);
            busy |= processor.additions > 0 || !processor.requests.empty();
        }
        const std::uint64_t next = system.next_event();
        check(system.advance(next == CXLAB_NO_EVENT ? now + 1000 : next + 1));
        for (cxlab::Completed done; system.take(done);) {
            processors[done.port].completed(done);
        }
        for (cxlab::Snoop snoop; system.take(snoop);) {
            Processor &processor = processors[snoop.port];
            const bool was_changed = !deaf && processor.snooped(snoop);
            (snoop.invalidate != 0 ? invalidated : shared)++;
            changed += was_changed;
            // It takes the processor 3 ns.
            check(processor.port.answer(snoop, was_changed, system.now() + 3000));
        }
    }
    for (Processor &processor : processors) {
        for (const auto &[address, line] : processor.lines) {
            if (line.changed) {
                processor.store(address, line);
            }
        }
    }
    std::uint64_t sum = 0;
    for (std::uint64_t counter = 0; counter < counters; counter++) {
        std::uint64_t value = 0;
        check(processors[0].port.read(counter * 64, &value, sizeof value));
        sum += value;
    }
    std::printf("additions %" PRIu64 " sum %" PRIu64 " invalidated %" PRIu64 " shared %" PRIu64 " changed %" PRIu64
                "\n",
                additions * processors.size(), sum, invalidated, shared, changed);
    return 0;
}
