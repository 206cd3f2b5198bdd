// A small clocked simulator behind adapters/media/clocked.hpp, for crates/cxlab-memory/tests/
// adapters.rs. Each channel serves one transaction each `service` clocks, in order of arrival, and
// completes it `latency` clocks later. Licensed like cxlab, under Apache-2.0 or MIT.
#include <algorithm>

#include "clocked.hpp"

namespace {

using cxlab::Offer;

class Fake {
  public:
    explicit Fake(const cxlab::Settings &settings)
        : period_fs_(settings.number("period_fs", 833333, 1, 1000000000)),
          bytes_(static_cast<uint32_t>(settings.number("bytes", 64, 32, 4096))),
          queue_(settings.number("queue", 4, 1, 64)), service_(settings.number("service", 4, 1, 64)),
          latency_(settings.number("latency", 20, 1, 64)),
          knows_(settings.number("knows", 1, 0, 1) == 1),
          writes_complete_(settings.number("posted", 0, 0, 1) == 1),
          channels_(settings.number("channels", 1, 1, 8)) {}

    uint64_t period_fs() const { return period_fs_; }
    uint32_t transaction_bytes() const { return bytes_; }
    uint32_t channels() const { return static_cast<uint32_t>(channels_.size()); }
    uint32_t channel(uint64_t address) const {
        return static_cast<uint32_t>(address / bytes_ % channels_.size());
    }
    bool has_room(bool write) const { return room(channels_[0], write); }

    Offer offer(uint64_t address, bool write, uint32_t tag) {
        if (address % bytes_ != 0) {
            throw std::logic_error("an address that is not one of a transaction");
        }
        Channel &channel = channels_[this->channel(address)];
        if (!room(channel, write)) {
            return Offer::refused;
        }
        const bool report = !(write && writes_complete_);
        channel.waiting.push_back({tag, write, report, 0});
        transactions_ += 1;
        return report ? Offer::taken : Offer::completed;
    }

    template <class Done> void tick(Done done) {
        clock_ += 1;
        for (Channel &channel : channels_) {
            while (!channel.served.empty() && channel.served.front().at <= clock_) {
                if (channel.served.front().report) {
                    done(channel.served.front().tag);
                }
                channel.served.pop_front();
            }
            if (!channel.waiting.empty() && clock_ >= channel.free) {
                channel.served.push_back(channel.waiting.front());
                channel.served.back().at = clock_ + latency_;
                channel.waiting.pop_front();
                channel.free = clock_ + service_;
            }
        }
    }

    uint64_t quiet() const {
        uint64_t quiet = latency_;
        for (const Channel &channel : channels_) {
            if (!channel.served.empty()) {
                quiet = std::min(quiet, channel.served.front().at - clock_ - 1);
            }
        }
        return knows_ ? quiet : 0;
    }

    void begin_measurement() { transactions_ = 0; }
    cxlab::Statistics statistics() { return {{"transactions", double(transactions_)}}; }

  private:
    struct Transaction {
        uint32_t tag;
        bool write, report;
        uint64_t at;
    };
    struct Channel {
        std::deque<Transaction> waiting, served;
        uint64_t free = 0;
    };

    bool room(const Channel &channel, bool write) const {
        const auto same = [write](const Transaction &one) { return one.write == write; };
        const auto &waiting = channel.waiting;
        return uint64_t(std::count_if(waiting.begin(), waiting.end(), same)) < queue_;
    }

    uint64_t period_fs_;
    uint32_t bytes_;
    uint64_t queue_, service_, latency_;
    bool knows_, writes_complete_;
    std::vector<Channel> channels_;
    uint64_t clock_ = 0, transactions_ = 0;
};

class Medium : public cxlab::Clocked<Fake> {
  public:
    Medium(const std::string &config, uint64_t capacity, uint64_t)
        : Medium(cxlab::Settings(config, {{"period_fs", "N"}, {"bytes", "N"}, {"queue", "N"},
                                          {"service", "N"}, {"latency", "N"}, {"knows", "0|1"},
                                          {"posted", "0|1"}, {"channels", "N"},
                                          {"input_queue", "N"}, {"file", "PATH"}})) {
        if (capacity == 0) {
            std::cerr << "no\nbytes\n";
            throw std::runtime_error("it gave up");
        }
    }

  private:
    explicit Medium(const cxlab::Settings &settings)
        : Clocked(std::make_unique<Fake>(settings), settings.number("input_queue", 0, 0, 4096)) {}
};

} // namespace

CXLAB_EXPORT_MEDIUM(Medium)
