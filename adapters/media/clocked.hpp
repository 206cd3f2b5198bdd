// A medium made of a simulator that is clocked, such as DRAMsim3 or Ramulator. Header-only, C++17.
// Licensed like cxlab, under Apache-2.0 or MIT.
//
// The adapter converts times, splits requests into transactions, and joins their completions.
//
// - Clock edge `k` is at `k` periods, rounded down to a picosecond, so that the error does not add
//   up. A request is offered to the simulator when it arrives, and takes part from the first edge
//   after that. A completion that the simulator reports at an edge has the time of that edge.
// - Nothing is lost: a transaction that the simulator refuses stays in the adapter, in order, and
//   is offered again before each edge.
// - A request completes with the last of its transactions.
// - The simulator is clocked only up to the time that cxlab asks for. While the simulator knows
//   that nothing completes in the next clocks (`quiet`), cxlab is not woken for them.
#ifndef CXLAB_ADAPTERS_CLOCKED_HPP
#define CXLAB_ADAPTERS_CLOCKED_HPP

#include <array>
#include <deque>

#include "medium.hpp"

namespace cxlab {

/// What a simulator did with a transaction.
enum class Offer {
    refused,   ///< Its queue is full.
    taken,     ///< It reports the transaction later.
    completed, ///< The transaction is complete at the next clock edge, and is not reported.
};

/// `Simulator` has, with `tag` the adapter's number of a transaction:
///
///     uint64_t period_fs() const;            // clock period in femtoseconds
///     uint32_t transaction_bytes() const;    // a power of two
///     uint32_t channels() const;
///     uint32_t channel(uint64_t address) const;
///     bool has_room(bool write) const;       // of channel 0
///     Offer offer(uint64_t address, bool write, uint32_t tag);
///     template <class Done> void tick(Done done);  // one clock; calls done(tag)
///     uint64_t quiet() const;                // clocks in which surely nothing completes
///     void begin_measurement();
///     Statistics statistics();
template <class Simulator> class Clocked {
  public:
    /// `input_queue` is the number of requests that may wait in the adapter. 0: a request is
    /// accepted only if the simulator has room for its first transaction, which can be known only
    /// with one channel.
    Clocked(std::unique_ptr<Simulator> simulator, uint64_t input_queue)
        : simulator_(std::move(simulator)), input_queue_(input_queue) {
        if (input_queue_ == 0 && simulator_->channels() > 1) {
            throw ConfigError("`input_queue`: found 0 with " +
                              std::to_string(simulator_->channels()) +
                              " channels; allowed: at least 1, because the channel of a request is "
                              "not known before it is accepted");
        }
        staged_.resize(simulator_->channels());
    }

    uint32_t granule() const {
        const uint32_t bytes = simulator_->transaction_bytes();
        return bytes < line_bytes ? line_bytes : bytes;
    }

    bool can_accept(uint64_t now, bool write) {
        catch_up(now);
        const bool room = has_room(write);
        refused_[write] = !room;
        return room;
    }

    void enqueue(uint64_t now, const cxlab_request &request) {
        catch_up(now);
        const uint32_t slot = take_slot(request.id);
        const uint64_t bytes = simulator_->transaction_bytes();
        const uint64_t first = request.address / bytes * bytes;
        const uint64_t end = request.address + uint64_t(request.lines) * line_bytes;
        bool waits = false;
        for (uint64_t address = first; address < end; address += bytes) {
            Transaction one{address, request.write != 0, slot};
            slots_[slot].left += 1;
            auto &queue = staged_[simulator_->channel(address)][one.write];
            if (!queue.empty() || !offer(one)) {
                queue.push_back(one);
                slots_[slot].staged += 1;
                staged_transactions_ += 1;
                waits = true;
            }
        }
        staged_requests_ += waits;
    }

    uint64_t next_event() const {
        if (!ready_.empty()) {
            return ready_.front().at > now_ ? ready_.front().at : now_;
        }
        if (refused_[0] || refused_[1] || staged_transactions_ > 0 || !at_next_edge_.empty()) {
            return edge(ticks_ + 1);
        }
        return in_flight_ == 0 ? CXLAB_NEVER : edge(ticks_ + 1 + simulator_->quiet());
    }

    size_t advance(uint64_t now, cxlab_completion *done, size_t room) {
        catch_up(now);
        for (const bool write : {false, true}) {
            refused_[write] = refused_[write] && !has_room(write);
        }
        size_t count = 0;
        while (count < room && !ready_.empty()) {
            done[count++] = ready_.front();
            ready_.pop_front();
        }
        return count;
    }

    void begin_measurement(uint64_t now) {
        catch_up(now);
        simulator_->begin_measurement();
    }

    Statistics statistics() { return simulator_->statistics(); }

  private:
    static constexpr uint32_t line_bytes = 64;

    struct Transaction {
        uint64_t address;
        bool write;
        uint32_t slot;
    };

    /// A request in flight.
    struct Slot {
        uint32_t id;
        uint32_t left;   ///< transactions that are not complete
        uint32_t staged; ///< of them, those that wait in the adapter
    };

    /// Time of a clock edge in picoseconds. Rounded down, and `CXLAB_NEVER` beyond the last time.
    uint64_t edge(uint64_t clock) const {
        const auto time = static_cast<unsigned __int128>(clock) * simulator_->period_fs() / 1000;
        return time < CXLAB_NEVER ? static_cast<uint64_t>(time) : CXLAB_NEVER;
    }

    bool has_room(bool write) const {
        if (staged_requests_ > 0 || input_queue_ > 0) {
            return staged_requests_ < input_queue_;
        }
        return simulator_->has_room(write);
    }

    /// Clocks the simulator through all edges up to `now`.
    void catch_up(uint64_t now) {
        now_ = now > now_ ? now : now_;
        while (edge(ticks_ + 1) <= now_) {
            offer_staged();
            ticks_ += 1;
            for (const uint32_t slot : at_next_edge_) {
                complete(slot);
            }
            at_next_edge_.clear();
            simulator_->tick([this](uint32_t slot) { complete(slot); });
        }
    }

    void offer_staged() {
        if (staged_transactions_ == 0) {
            return;
        }
        for (auto &kinds : staged_) {
            for (auto &queue : kinds) {
                while (!queue.empty() && offer(queue.front())) {
                    Slot &slot = slots_[queue.front().slot];
                    slot.staged -= 1;
                    staged_requests_ -= slot.staged == 0;
                    staged_transactions_ -= 1;
                    queue.pop_front();
                }
            }
        }
    }

    bool offer(const Transaction &one) {
        const Offer offer = simulator_->offer(one.address, one.write, one.slot);
        if (offer == Offer::completed) {
            at_next_edge_.push_back(one.slot);
        }
        return offer != Offer::refused;
    }

    void complete(uint32_t number) {
        Slot &slot = slots_.at(number);
        if (slot.left == 0) {
            throw std::logic_error("the simulator completed a transaction that is not in flight");
        }
        slot.left -= 1;
        if (slot.left == 0) {
            ready_.push_back(cxlab_completion{edge(ticks_), slot.id, 0});
            free_.push_back(number);
            in_flight_ -= 1;
        }
    }

    uint32_t take_slot(uint32_t id) {
        in_flight_ += 1;
        if (free_.empty()) {
            slots_.push_back(Slot{id, 0, 0});
            return static_cast<uint32_t>(slots_.size() - 1);
        }
        const uint32_t number = free_.back();
        free_.pop_back();
        slots_[number] = Slot{id, 0, 0};
        return number;
    }

    std::unique_ptr<Simulator> simulator_;
    uint64_t input_queue_;
    uint64_t now_ = 0;
    uint64_t ticks_ = 0; ///< clock edges that the simulator has had
    std::vector<std::array<std::deque<Transaction>, 2>> staged_; ///< by channel and kind
    uint64_t staged_requests_ = 0;
    uint64_t staged_transactions_ = 0;
    std::array<bool, 2> refused_{}; ///< whether can_accept last said no, by kind
    std::vector<Slot> slots_;
    std::vector<uint32_t> free_;
    std::vector<uint32_t> at_next_edge_; ///< slots with a transaction that completes there
    std::deque<cxlab_completion> ready_;
    uint64_t in_flight_ = 0;
};

} // namespace cxlab

#endif
