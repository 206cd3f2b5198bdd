// cxlab with the C++ interface of DRAMsim3 (github.com/umd-memsys/DRAMsim3, src/dramsim3.h), so that a program
// written for DRAMsim3 runs with cxlab. Include this header in place of DRAMsim3's and link libcxlab; C++17.
//
// Differences from DRAMsim3:
// - `config_file` is a scenario of cxlab with exactly one host of kind "external". `output_dir` gets the file
//   cxlab.json when PrintStats is called.
// - cxlab has no clock. A call of ClockTick advances it by CXLAB_DRAMSIM3_TCK_PS picoseconds, 500 by default
//   (*assumed*: 2 GHz). A request completes at the first tick after its time.
// - A constructor that fails throws std::runtime_error, where DRAMsim3 ends the program.
//
// As with DRAMsim3, a transaction is a line of 64 bytes, addresses beyond the memory wrap around, and callbacks get
// the address of the transaction. Licensed like cxlab, under Apache-2.0 or MIT.
#ifndef CXLAB_DRAMSIM3_H
#define CXLAB_DRAMSIM3_H

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cxlab.hpp"

#ifndef CXLAB_DRAMSIM3_TCK_PS
#define CXLAB_DRAMSIM3_TCK_PS 500
#endif

namespace dramsim3 {

class MemorySystem {
public:
    MemorySystem(const std::string &config_file, const std::string &output_dir,
                 std::function<void(uint64_t)> read_callback,
                 std::function<void(uint64_t)> write_callback)
        : state_(std::make_shared<State>()) {
        state_->output_dir = output_dir;
        check(state_->system.open(cxlab::Options().path(config_file)));
        if (state_->system.port_count() != 1) {
            throw std::runtime_error(config_file + ": found " +
                                     std::to_string(state_->system.port_count()) +
                                     " hosts of kind \"external\"; allowed: one");
        }
        state_->port = state_->system.port(0);
        state_->info = state_->port.info();
        state_->start = state_->system.now();
        RegisterCallbacks(std::move(read_callback), std::move(write_callback));
    }

    void ClockTick() {
        State &state = *state_;
        state.clock++;
        check(state.system.advance(state.start + state.clock * CXLAB_DRAMSIM3_TCK_PS));
        cxlab::Completed completed;
        while (state.system.take(completed)) {
            if (completed.outcome != CXLAB_SERVED) {
                throw std::runtime_error("a transaction failed with outcome " +
                                         std::to_string(completed.outcome));
            }
            const Transaction done = state.transactions[completed.id];
            state.free.push_back(completed.id);
            (done.is_write ? state.write_callback : state.read_callback)(done.address);
        }
    }

    void RegisterCallbacks(std::function<void(uint64_t)> read_callback,
                           std::function<void(uint64_t)> write_callback) {
        state_->read_callback = std::move(read_callback);
        state_->write_callback = std::move(write_callback);
    }

    // Time of a tick, in nanoseconds.
    double GetTCK() const { return CXLAB_DRAMSIM3_TCK_PS / 1000.0; }
    // Bus width times burst length is a line of 64 bytes.
    int GetBusBits() const { return 64; }
    int GetBurstLength() const { return 8; }
    int GetQueueSize() const { return static_cast<int>(state_->info.depth); }

    // Writes the report to output_dir/cxlab.json.
    void PrintStats() const {
        std::string report;
        check(state_->system.report(report));
        const std::string path = state_->output_dir + "/cxlab.json";
        std::FILE *file = std::fopen(path.c_str(), "w");
        if (file == nullptr) {
            throw std::runtime_error(path + ": cannot be written");
        }
        const bool written = std::fwrite(report.data(), 1, report.size(), file) == report.size();
        if (std::fclose(file) != 0 || !written) {
            throw std::runtime_error(path + ": cannot be written");
        }
    }
    void ResetStats() { check(state_->system.begin_measurement()); }

    bool WillAcceptTransaction(uint64_t, bool) const { return state_->port.room() > 0; }

    // The caller has asked WillAcceptTransaction.
    bool AddTransaction(uint64_t hex_addr, bool is_write) {
        State &state = *state_;
        uint64_t id = state.transactions.size();
        if (state.free.empty()) {
            state.transactions.push_back({hex_addr, is_write});
        } else {
            id = state.free.back();
            state.free.pop_back();
            state.transactions[id] = {hex_addr, is_write};
        }
        const uint64_t address = hex_addr % state.info.memory_bytes / 64 * 64;
        const uint64_t now = state.start + state.clock * CXLAB_DRAMSIM3_TCK_PS;
        check(state.port.submit(id, address, 64, is_write, now));
        return true;
    }

private:
    struct Transaction {
        uint64_t address;
        bool is_write;
    };

    // Shared by copies, as in DRAMsim3: some callers put the object into a container.
    struct State {
        cxlab::System system;
        cxlab::Port port;
        cxlab::PortInfo info{};
        uint64_t start = 0, clock = 0;
        std::function<void(uint64_t)> read_callback, write_callback;
        std::vector<Transaction> transactions;
        std::vector<uint64_t> free;
        std::string output_dir;
    };

    static void check(cxlab::Status status) {
        if (!status) {
            throw std::runtime_error(status.text());
        }
    }

    std::shared_ptr<State> state_;
};

inline MemorySystem *GetMemorySystem(const std::string &config_file, const std::string &output_dir,
                                     std::function<void(uint64_t)> read_callback,
                                     std::function<void(uint64_t)> write_callback) {
    return new MemorySystem(config_file, output_dir, std::move(read_callback),
                            std::move(write_callback));
}

}  // namespace dramsim3

#endif
