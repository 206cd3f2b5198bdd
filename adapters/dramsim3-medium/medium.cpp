// DRAMsim3 as a medium of cxlab. See docs/guide/couple-a-medium.md. Licensed like cxlab, under
// Apache-2.0 or MIT.
//
// `config` is `ini=FILE`, a configuration file of DRAMsim3, and optionally `input_queue=N`. The
// adapter drives `dramsim3::MemorySystem`. It also reads members that are private there
// (-fno-access-control in CMakeLists.txt): the cycles at which transactions will complete, so that
// cxlab is not woken for each clock, and the statistics, which DRAMsim3 only prints.
#include <cmath>
#include <cstring>
#include <fstream>
#include <unordered_map>

#include "clocked.hpp"
#include "memory_system.h"

namespace {

using cxlab::ConfigError;
using cxlab::Offer;

class Dramsim3 {
  public:
    Dramsim3(const std::string &ini, uint64_t capacity) {
        check_file(ini);
        system_ = std::make_unique<dramsim3::MemorySystem>(
            ini, "/tmp", [this](uint64_t address) { report(address, false); },
            [this](uint64_t address) { report(address, true); });
        dramsim3::Config &config = *system_->config_;
        // Nothing is written to files.
        config.output_level = -1;
        config.json_epoch_name = config.json_stats_name = config.txt_stats_name = "/dev/null";
        jedec_ = dynamic_cast<dramsim3::JedecDRAMSystem *>(system_->dram_system_);
        if (jedec_ == nullptr) {
            throw ConfigError("`ini`: found an HMC, which this adapter does not have; allowed: "
                              "DDR3, DDR4, GDDR, LPDDR and HBM");
        }
        period_fs_ = static_cast<uint64_t>(std::llround(config.tCK * 1e6));
        if (period_fs_ == 0) {
            throw ConfigError("`ini`: found a clock period tCK of " + std::to_string(config.tCK) +
                              " ns; allowed: more than 0");
        }
        bytes_ = static_cast<uint32_t>(config.request_size_bytes);
        const uint64_t size = uint64_t(config.channel_size) * config.channels << 20;
        if (capacity > size) {
            throw ConfigError("`ini`: " + ini + " has " + std::to_string(size >> 20) +
                              " MiB (channels times channel_size), and the device " +
                              std::to_string(capacity >> 20) + " MiB; allowed: at most as much");
        }
    }

    uint64_t period_fs() const { return period_fs_; }
    uint32_t transaction_bytes() const { return bytes_; }
    uint32_t channels() const { return static_cast<uint32_t>(jedec_->ctrls_.size()); }
    uint32_t channel(uint64_t address) const {
        return static_cast<uint32_t>(jedec_->GetChannel(address));
    }
    bool has_room(bool write) const { return system_->WillAcceptTransaction(0, write); }

    Offer offer(uint64_t address, bool write, uint32_t tag) {
        if (!system_->WillAcceptTransaction(address, write)) {
            return Offer::refused;
        }
        system_->AddTransaction(address, write);
        waiting_[write][address].push_back(tag);
        return Offer::taken;
    }

    template <class Done> void tick(Done done) {
        system_->ClockTick();
        for (const uint32_t tag : reported_) {
            done(tag);
        }
        reported_.clear();
    }

    /// A read completes `read_delay` clocks after its command or later; what was issued or
    /// forwarded is in the return queue.
    uint64_t quiet() const {
        const uint64_t now = jedec_->clk_;
        uint64_t next = now + static_cast<uint64_t>(system_->config_->read_delay);
        for (const dramsim3::Controller *controller : jedec_->ctrls_) {
            for (const auto &transaction : controller->return_queue_) {
                next = std::min(next, transaction.complete_cycle);
            }
        }
        return next > now ? next - now : 0;
    }

    void begin_measurement() { system_->ResetStats(); }

    /// Counters summed over channels; energies in picojoules; the mean read latency over all reads.
    cxlab::Statistics statistics() {
        std::map<std::string, double> sums;
        double latency_cycles = 0;
        double reads = 0;
        for (dramsim3::Controller *controller : jedec_->ctrls_) {
            // A copy, because updating ends the epoch.
            dramsim3::SimpleStats stats = controller->simple_stats_;
            stats.UpdateEpochStats();
            stats.UpdateFinalStats();
            for (const auto &one : stats.counters_) {
                sums[one.first] += static_cast<double>(one.second);
            }
            for (const auto &one : stats.doubles_) {
                sums[one.first + "_pj"] += one.second;
            }
            for (const auto &one : stats.vec_doubles_) {
                for (const double of_rank : one.second) {
                    sums[one.first + "_pj"] += of_rank;
                }
            }
            sums["total_energy_pj"] += stats.calculated_.at("total_energy");
            sums["average_power_mw"] += stats.calculated_.at("average_power");
            for (const auto &one : stats.histo_counts_.at("read_latency")) {
                latency_cycles += static_cast<double>(one.first) * static_cast<double>(one.second);
                reads += static_cast<double>(one.second);
            }
        }
        sums["average_read_latency_ns"] =
            reads > 0 ? latency_cycles / reads * system_->config_->tCK : 0.0;
        // The channels are clocked together.
        sums["num_cycles"] /= static_cast<double>(jedec_->ctrls_.size());
        sums.erase("epoch_num");
        return cxlab::Statistics(sums.begin(), sums.end());
    }

  private:
    /// DRAMsim3 takes its defaults for what it cannot read. Its reader also stumbles over comments
    /// of more than 200 characters, which some of its own files have, and which do no harm.
    static void check_file(const std::string &ini) {
        std::ifstream file(ini);
        if (!file) {
            throw ConfigError("`ini`: cannot open `" + ini + "`");
        }
        std::string line;
        for (int number = 1; std::getline(file, line); number++) {
            const size_t first = line.find_first_not_of(" \t\r");
            const bool is_plain = first == std::string::npos ||
                                  std::strchr(";#[", line[first]) != nullptr ||
                                  line.find_first_of("=:") != std::string::npos;
            if (!is_plain) {
                throw ConfigError("`ini`: " + ini + ":" + std::to_string(number) +
                                  ": found neither `[section]` nor `key = value`");
            }
        }
        if (INIReader(ini).Get("dram_structure", "protocol", "").empty()) {
            throw ConfigError("`ini`: " + ini + " has no `protocol` in `[dram_structure]`");
        }
    }

    /// DRAMsim3 reports a transaction by its address. Those of one kind and address complete in
    /// the order in which they were added.
    void report(uint64_t address, bool write) {
        auto found = waiting_[write].find(address);
        if (found == waiting_[write].end()) {
            throw std::logic_error("DRAMsim3 reports a transaction that it does not have");
        }
        reported_.push_back(found->second.front());
        found->second.pop_front();
        if (found->second.empty()) {
            waiting_[write].erase(found);
        }
    }

    std::unique_ptr<dramsim3::MemorySystem> system_;
    dramsim3::JedecDRAMSystem *jedec_ = nullptr;
    uint64_t period_fs_ = 0;
    uint32_t bytes_ = 0;
    std::array<std::unordered_map<uint64_t, std::deque<uint32_t>>, 2> waiting_;
    std::vector<uint32_t> reported_;
};

class Medium : public cxlab::Clocked<Dramsim3> {
  public:
    Medium(const std::string &config, uint64_t capacity, uint64_t)
        : Medium(cxlab::Settings(config, {{"ini", "FILE"}, {"input_queue", "REQUESTS"}}),
                 capacity) {}

  private:
    Medium(const cxlab::Settings &settings, uint64_t capacity)
        : Medium(std::make_unique<Dramsim3>(settings.required("ini"), capacity), settings) {}

    Medium(std::unique_ptr<Dramsim3> simulator, const cxlab::Settings &settings)
        : Clocked(std::move(simulator),
                  settings.number("input_queue", default_queue(*simulator), 0, 4096)) {}

    /// As the medium `dram` of cxlab: none for one channel, else 16 for each.
    static uint64_t default_queue(const Dramsim3 &simulator) {
        return simulator.channels() == 1 ? 0 : 16 * simulator.channels();
    }
};

} // namespace

CXLAB_EXPORT_MEDIUM(Medium)
