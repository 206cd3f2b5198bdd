// A program for DRAMsim3: random transactions at full speed, like RandomCPU in DRAMsim3's src/cpu.cc. The test of the
// adapter compiles it with the adapter's header; with DRAMsim3's own header and library it runs with DRAMsim3.
//
//   random CONFIG OUTPUT_DIR CYCLES
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

#include "dramsim3.h"

int main(int argc, char **argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: random CONFIG OUTPUT_DIR CYCLES\n");
        return 2;
    }
    const std::uint64_t cycles = std::strtoull(argv[3], nullptr, 10);
    // Transactions by address and kind that have not been called back.
    std::map<std::pair<std::uint64_t, bool>, std::uint64_t> waiting;
    std::uint64_t added = 0, done = 0, unknown = 0;
    const auto called = [&](bool is_write) {
        return [&, is_write](std::uint64_t address) {
            const auto found = waiting.find({address, is_write});
            if (found == waiting.end()) {
                unknown++;
                return;
            }
            if (--found->second == 0) {
                waiting.erase(found);
            }
            done++;
        };
    };
    // Callers of DRAMsim3 do not know how large its MemorySystem is.
    dramsim3::MemorySystem &memory =
        *dramsim3::GetMemorySystem(argv[1], argv[2], called(false), called(true));
    std::mt19937_64 random(1);
    std::uint64_t address = random();
    bool is_write = false, next = true;
    const auto tick = [&](bool adds) {
        memory.ClockTick();
        if (!adds) {
            return;
        }
        if (next) {
            address = random();
            is_write = random() % 3 == 0;
        }
        next = memory.WillAcceptTransaction(address, is_write);
        if (next) {
            waiting[{address, is_write}]++;
            memory.AddTransaction(address, is_write);
            added++;
        }
    };
    for (std::uint64_t cycle = 0; cycle < cycles; cycle++) {
        tick(true);
    }
    std::uint64_t more = 0;
    while (!waiting.empty() && more < 1000000) {
        tick(false);
        more++;
    }
    memory.PrintStats();
    const int bytes = memory.GetBusBits() / 8 * memory.GetBurstLength();
    delete &memory;
    std::printf("added %" PRIu64 " done %" PRIu64 " unknown %" PRIu64 " bytes %d\n", added, done, unknown,
                bytes);
    return added == done && unknown == 0 ? 0 : 1;
}
