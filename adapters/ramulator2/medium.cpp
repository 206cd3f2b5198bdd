// Ramulator 2.1 as a medium of cxlab. See docs/guide/couple-a-medium.md. Licensed like cxlab, under
// Apache-2.0 or MIT.
//
// `config` is `yaml=FILE`, a configuration with the frontend `External` that
// `python -m ramulator export` wrote, and optionally `input_queue=N` and
// `write_done=accepted|issued`. Ramulator models no time of the data of a write: it reports a write
// when its command is issued. `accepted`, the default, completes a write at the clock edge after
// its controller accepted it, as Ramulator's wrapper for gem5 does.
//
// The adapter sends through `IFrontEnd` and ticks `IMemorySystem`. It also reads members that are
// not public there (-fno-access-control in CMakeLists.txt): the reads that have a departure time,
// so that cxlab is not woken for each clock, the queues' lengths, and the organization.
#include <fstream>

#include "clocked.hpp"

#include <ramulator/base/config.h>
#include <ramulator/base/factory.h>
#include <ramulator/base/request.h>
#include <ramulator/controller/controller_base.h>
#include <ramulator/frontend/i_frontend.h>
#include <ramulator/memory_system/channel_mapper/i_channel_mapper.h>
#include <ramulator/memory_system/i_memory_system.h>

namespace {

using cxlab::ConfigError;
using cxlab::Offer;

class Ramulator2 {
  public:
    Ramulator2(const std::string &yaml, const std::string &write_done, uint64_t capacity)
        : writes_complete_(write_done == "accepted") {
        if (!writes_complete_ && write_done != "issued") {
            throw ConfigError("`write_done`: found `" + write_done +
                              "`; allowed: accepted, issued");
        }
        std::ifstream file(yaml);
        std::stringstream text;
        if (!file || !(text << file.rdbuf())) {
            throw ConfigError("`yaml`: cannot read `" + yaml + "`");
        }
        const Ramulator::ConfigNode config = Ramulator::Config::parse_config_string(text.str());
        if (!config["frontend"].is_map() || !config["memory_system"].is_map()) {
            throw ConfigError("`yaml`: " + yaml + " has no `frontend` and `memory_system`");
        }
        frontend_.reset(Ramulator::Factory::create_frontend(config));
        memory_.reset(Ramulator::Factory::create_memory_system(config));
        if (!frontend_ || !memory_) {
            throw ConfigError("`yaml`: Ramulator makes no system of " + yaml);
        }
        frontend_->connect_memory_system(memory_.get());
        memory_->connect_frontend(frontend_.get());
        for (const auto &owned : memory_->m_impl->m_children) {
            Ramulator::Implementation *child = owned.get();
            if (auto *mapper = dynamic_cast<Ramulator::IChannelMapper *>(child)) {
                mapper_ = mapper;
            } else if (auto *controller = dynamic_cast<Ramulator::ControllerBase *>(child)) {
                controllers_.push_back(controller);
            }
        }
        if (mapper_ == nullptr || controllers_.empty()) {
            throw ConfigError("`yaml`: " + yaml + " has no channel mapper or no controller");
        }
        check_capacity(yaml, capacity);
    }

    uint64_t period_fs() const { return uint64_t(controllers_[0]->m_tCK_ps) * 1000; }
    uint32_t transaction_bytes() const { return static_cast<uint32_t>(memory_->get_tx_bytes()); }
    uint32_t channels() const { return static_cast<uint32_t>(controllers_.size()); }

    uint32_t channel(uint64_t address) const {
        Ramulator::Request request;
        request.addr = static_cast<Ramulator::Addr_t>(address);
        mapper_->apply(request);
        return static_cast<uint32_t>(request.addr_vec[0]);
    }

    bool has_room(bool write) const {
        const auto &buffer =
            write ? controllers_[0]->m_write_buffer : controllers_[0]->m_read_buffer;
        return buffer.size() < buffer.max_size;
    }

    Offer offer(uint64_t address, bool write, uint32_t tag) {
        const int kind =
            write ? Ramulator::Request::Type::Write : Ramulator::Request::Type::Read;
        std::function<void(Ramulator::Request &)> report;
        const bool complete = write && writes_complete_;
        if (!complete) {
            report = [this, tag](Ramulator::Request &) { reported_.push_back(tag); };
        }
        const bool taken = frontend_->receive_external_requests(
            kind, static_cast<Ramulator::Addr_t>(address), 0, std::move(report),
            memory_->get_tx_bytes());
        return !taken ? Offer::refused : complete ? Offer::completed : Offer::taken;
    }

    template <class Done> void tick(Done done) {
        memory_->tick();
        // A write that was merged into a queued one is reported when it is offered, before this.
        for (const uint32_t tag : reported_) {
            done(tag);
        }
        reported_.clear();
    }

    /// A read departs `read_latency` clocks after its command. Controllers hold those with a
    /// departure time in order of that time.
    uint64_t quiet() const {
        if (!writes_complete_ || !reported_.empty()) {
            return 0;
        }
        Ramulator::Clk_t quiet = controllers_[0]->m_device.m_spec->read_latency;
        for (const Ramulator::ControllerBase *controller : controllers_) {
            if (!controller->m_pending.empty()) {
                quiet = std::min(quiet, controller->m_pending.front().depart -
                                            controller->m_clk - 1);
            }
        }
        return quiet > 0 ? static_cast<uint64_t>(quiet) : 0;
    }

    void begin_measurement() {
        frontend_->reset_stats_recursive();
        memory_->reset_stats_recursive();
    }

    /// Ramulator's own, under its names, with dots between the names of components.
    cxlab::Statistics statistics() {
        memory_->update_stats_recursive();
        cxlab::Statistics list;
        flatten("", memory_->collect_stats(), list);
        return list;
    }

  private:
    void check_capacity(const std::string &yaml, uint64_t capacity) const {
        const Ramulator::DRAMSpec &spec = *controllers_[0]->m_device.m_spec;
        uint64_t bytes = uint64_t(memory_->get_tx_bytes()) * controllers_.size();
        // Level 0 is the channel. A transaction takes as many columns as are prefetched.
        for (size_t level = 1; level < spec.organization.level_sizes.size(); level++) {
            bytes *= static_cast<uint64_t>(spec.organization.level_sizes[level]);
        }
        bytes /= static_cast<uint64_t>(spec.internal_prefetch_size);
        if (capacity > bytes) {
            throw ConfigError("`yaml`: " + yaml + " has " + std::to_string(bytes >> 20) +
                              " MiB, and the device " + std::to_string(capacity >> 20) +
                              " MiB; allowed: at most as much");
        }
    }

    static void flatten(const std::string &prefix, const Ramulator::ConfigNode &node,
                        cxlab::Statistics &list) {
        if (node.is_map()) {
            for (const auto &one : node.map()) {
                flatten(prefix.empty() ? one.first : prefix + "." + one.first, one.second, list);
            }
        } else if (node.is_sequence()) {
            for (size_t number = 0; number < node.size(); number++) {
                flatten(prefix + "." + std::to_string(number), node.seq()[number], list);
            }
        } else if (node.is_scalar()) {
            const std::string &text = node.scalar();
            char *end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            // Names of components are not numbers.
            if (!text.empty() && *end == '\0') {
                list.emplace_back(prefix, value);
            }
        }
    }

    bool writes_complete_;
    std::unique_ptr<Ramulator::IFrontEnd> frontend_;
    std::unique_ptr<Ramulator::IMemorySystem> memory_;
    Ramulator::IChannelMapper *mapper_ = nullptr;
    std::vector<Ramulator::ControllerBase *> controllers_;
    std::vector<uint32_t> reported_;
};

class Medium : public cxlab::Clocked<Ramulator2> {
  public:
    Medium(const std::string &config, uint64_t capacity, uint64_t)
        : Medium(cxlab::Settings(config, {{"yaml", "FILE"},
                                          {"input_queue", "REQUESTS"},
                                          {"write_done", "accepted|issued"}}),
                 capacity) {}

  private:
    Medium(const cxlab::Settings &settings, uint64_t capacity)
        : Medium(std::make_unique<Ramulator2>(settings.required("yaml"),
                                              settings.text("write_done", "accepted"), capacity),
                 settings) {}

    Medium(std::unique_ptr<Ramulator2> simulator, const cxlab::Settings &settings)
        : Clocked(std::move(simulator),
                  settings.number("input_queue", default_queue(*simulator), 0, 4096)) {}

    /// As the medium `dram` of cxlab: none for one channel, else 16 for each.
    static uint64_t default_queue(const Ramulator2 &simulator) {
        return simulator.channels() == 1 ? 0 : 16 * simulator.channels();
    }
};

} // namespace

CXLAB_EXPORT_MEDIUM(Medium)
