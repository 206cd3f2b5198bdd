// cxlab under SystemC: a TLM-2.0 target socket for each external port. Header only; C++17, SystemC 2.3 or newer.
//
//   cxlab_tlm::System system("cxl", cxlab::Options().path("scenario.toml"));
//   cxlab_tlm::Target target("outside", system, "outside");
//   initiator.socket.bind(target.socket);
//
// Loosely timed initiators use b_transport: the target waits until SystemC has reached the local time of the
// initiator, submits the request, and waits until it completes. The delay is then zero. Approximately timed
// initiators use the four phases of the base protocol: END_REQ when the port has room for another request, and
// BEGIN_RESP when the request has completed. One response is under way at a time.
//
// Time: requests are issued at the SystemC time at which they arrive. A response comes 1 ps after the completion in
// cxlab, because other requests may be submitted at the time of the completion. The time resolution is 1 ps, which
// is SystemC's default.
//
// Data: writes store their bytes when they complete, and reads get the bytes that are stored then. DMI is refused.
// Byte enables, streaming, and accesses that are not whole lines of 64 bytes get the error response of the standard.
//
// Licensed like cxlab, under Apache-2.0 or MIT.
#ifndef CXLAB_TLM_H
#define CXLAB_TLM_H

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include <systemc>
#include <tlm>
#include <tlm_utils/peq_with_cb_and_phase.h>
#include <tlm_utils/simple_target_socket.h>

#include "cxlab.hpp"

namespace cxlab_tlm {

class Target;

inline std::uint64_t picoseconds(const sc_core::sc_time &time) {
    return static_cast<std::uint64_t>(time.value());
}

// A system of cxlab, whose time follows that of SystemC. Targets are its ports.
class System : public sc_core::sc_module {
public:
    SC_HAS_PROCESS(System);

    System(sc_core::sc_module_name name, const cxlab::Options &options) : sc_module(name) {
        if (sc_core::sc_get_time_resolution() != sc_core::sc_time(1, sc_core::SC_PS)) {
            SC_REPORT_FATAL("cxlab", "the time resolution is not 1 ps");
        }
        check(system_.open(options));
        SC_METHOD(step);
        sensitive << wake_;
        dont_initialize();
    }

    cxlab::System &system() { return system_; }

    // Called with each request that completes. It must not use the system.
    std::function<void(const cxlab::Completed &)> completed;

    // Reports an error of cxlab, and ends the simulation.
    static void check(cxlab::Status status) {
        if (!status) {
            SC_REPORT_FATAL("cxlab", status.text());
        }
    }

private:
    friend class Target;

    struct Pending {
        Target *target;
        tlm::tlm_generic_payload *payload;
    };

    // Submits a request now. The caller has looked for room.
    void submit(Target *target, cxlab::Port &port, tlm::tlm_generic_payload &payload);

    // Wakes the module after the next event of cxlab.
    void schedule() {
        const std::uint64_t next = system_.next_event();
        if (next != CXLAB_NO_EVENT) {
            const std::uint64_t now = picoseconds(sc_core::sc_time_stamp());
            const std::uint64_t span = next + 1 > now ? next + 1 - now : 0;
            wake_.notify(sc_core::sc_time(static_cast<double>(span), sc_core::SC_PS));
        }
    }

    void advance() { check(system_.advance(picoseconds(sc_core::sc_time_stamp()))); }

    void step();

    cxlab::System system_;
    sc_core::sc_event wake_;
    std::vector<Target *> targets_;
    std::deque<Pending> pending_;
    std::uint64_t first_ = 0;
};

// The target socket of an external port.
class Target : public sc_core::sc_module {
public:
    tlm_utils::simple_target_socket<Target> socket;

    Target(sc_core::sc_module_name name, System &system, const char *port)
        : sc_module(name), socket("socket"), system_(system), queue_(this, &Target::arrive) {
        System::check(system.system().find_port(port, port_));
        memory_ = port_.info().memory_bytes;
        most_ = port_.info().most_bytes;
        system.targets_.push_back(this);
        socket.register_b_transport(this, &Target::b_transport);
        socket.register_nb_transport_fw(this, &Target::nb_transport_fw);
        socket.register_transport_dbg(this, &Target::transport_dbg);
        socket.register_get_direct_mem_ptr(this, &Target::get_direct_mem_ptr);
    }

    cxlab::Port &port() { return port_; }

private:
    friend class System;

    // Whether the target can do what a payload asks for. Sets the response of the standard if it cannot.
    bool is_allowed(tlm::tlm_generic_payload &payload) const {
        const std::uint64_t address = payload.get_address(), length = payload.get_data_length();
        if (payload.get_byte_enable_ptr() != nullptr) {
            payload.set_response_status(tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
        } else if (length == 0 || length % 64 != 0 || length > most_ || address % 64 != 0 ||
                   payload.get_streaming_width() < length) {
            payload.set_response_status(tlm::TLM_BURST_ERROR_RESPONSE);
        } else if (address >= memory_ || length > memory_ - address) {
            payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
        } else if (payload.get_data_ptr() == nullptr) {
            payload.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
        } else {
            return true;
        }
        return false;
    }

    // A request has completed: moves its data, and sets its response.
    void finish(tlm::tlm_generic_payload &payload, const cxlab::Completed &completed) {
        if (completed.outcome != CXLAB_SERVED) {
            const bool denied = completed.outcome == CXLAB_DENIED;
            payload.set_response_status(denied ? tlm::TLM_ADDRESS_ERROR_RESPONSE
                                               : tlm::TLM_GENERIC_ERROR_RESPONSE);
            return;
        }
        move(payload);
        payload.set_response_status(tlm::TLM_OK_RESPONSE);
    }

    void move(tlm::tlm_generic_payload &payload) {
        const std::uint64_t address = payload.get_address();
        if (payload.is_write()) {
            System::check(port_.write(address, payload.get_data_ptr(), payload.get_data_length()));
        } else {
            System::check(port_.read(address, payload.get_data_ptr(), payload.get_data_length()));
        }
    }

    void b_transport(tlm::tlm_generic_payload &payload, sc_core::sc_time &delay) {
        if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) {
            payload.set_response_status(tlm::TLM_OK_RESPONSE);
            return;
        }
        if (!is_allowed(payload)) {
            return;
        }
        sc_core::wait(delay);
        delay = sc_core::SC_ZERO_TIME;
        system_.advance();
        while (port_.room() == 0) {
            sc_core::wait(room_);
        }
        sc_core::sc_event done;
        blocked_.push_back({&payload, &done});
        system_.submit(this, port_, payload);
        sc_core::wait(done);
    }

    tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload &payload, tlm::tlm_phase &phase,
                                       sc_core::sc_time &delay) {
        if (phase == tlm::BEGIN_REQ) {
            if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) {
                payload.set_response_status(tlm::TLM_OK_RESPONSE);
                return tlm::TLM_COMPLETED;
            }
            if (!is_allowed(payload)) {
                return tlm::TLM_COMPLETED;
            }
            if (payload.has_mm()) {
                payload.acquire();
            }
        } else if (phase != tlm::END_RESP) {
            SC_REPORT_FATAL("cxlab", "a phase that is none of the base protocol's");
        }
        queue_.notify(payload, phase, delay);
        return tlm::TLM_ACCEPTED;
    }

    // The time of a phase has come.
    void arrive(tlm::tlm_generic_payload &payload, const tlm::tlm_phase &phase) {
        if (phase == tlm::BEGIN_REQ) {
            system_.advance();
            waiting_.push_back(&payload);
            accept();
        } else {
            end_response(payload);
        }
    }

    // Submits what waits, as far as the port has room.
    void accept() {
        while (!waiting_.empty() && port_.room() > 0) {
            tlm::tlm_generic_payload &payload = *waiting_.front();
            waiting_.pop_front();
            system_.submit(this, port_, payload);
            tlm::tlm_phase phase = tlm::END_REQ;
            sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
            socket->nb_transport_bw(payload, phase, delay);
        }
        if (port_.room() > 0) {
            room_.notify();
        }
    }

    // A request has completed at the current time.
    void respond(tlm::tlm_generic_payload &payload, const cxlab::Completed &completed) {
        finish(payload, completed);
        for (auto one = blocked_.begin(); one != blocked_.end(); ++one) {
            if (one->payload == &payload) {
                one->done->notify();
                blocked_.erase(one);
                return;
            }
        }
        responses_.push_back(&payload);
        if (responses_.size() == 1) {
            begin_response();
        }
    }

    // Sends responses, until the initiator takes time for one.
    void begin_response() {
        while (!responses_.empty()) {
            tlm::tlm_generic_payload &payload = *responses_.front();
            tlm::tlm_phase phase = tlm::BEGIN_RESP;
            sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
            const tlm::tlm_sync_enum status = socket->nb_transport_bw(payload, phase, delay);
            const bool ended = status == tlm::TLM_COMPLETED ||
                               (status == tlm::TLM_UPDATED && phase == tlm::END_RESP);
            if (!ended) {
                return;
            }
            if (delay != sc_core::SC_ZERO_TIME) {
                queue_.notify(payload, tlm::END_RESP, delay);
                return;
            }
            release();
        }
    }

    void end_response(tlm::tlm_generic_payload &payload) {
        if (responses_.empty() || responses_.front() != &payload) {
            SC_REPORT_FATAL("cxlab", "END_RESP of a response that was not begun");
        }
        release();
        begin_response();
    }

    void release() {
        tlm::tlm_generic_payload &payload = *responses_.front();
        responses_.pop_front();
        if (payload.has_mm()) {
            payload.release();
        }
    }

    unsigned transport_dbg(tlm::tlm_generic_payload &payload) {
        const std::uint64_t address = payload.get_address(), length = payload.get_data_length();
        if (address >= memory_ || payload.get_command() == tlm::TLM_IGNORE_COMMAND) {
            return 0;
        }
        const std::uint64_t count = length < memory_ - address ? length : memory_ - address;
        if (payload.is_write()) {
            System::check(port_.write(address, payload.get_data_ptr(), count));
        } else {
            System::check(port_.read(address, payload.get_data_ptr(), count));
        }
        return static_cast<unsigned>(count);
    }

    bool get_direct_mem_ptr(tlm::tlm_generic_payload &, tlm::tlm_dmi &dmi) {
        dmi.allow_none();
        dmi.set_start_address(0);
        dmi.set_end_address(memory_ - 1);
        return false;
    }

    struct Blocked {
        tlm::tlm_generic_payload *payload;
        sc_core::sc_event *done;
    };

    System &system_;
    cxlab::Port port_;
    std::uint64_t memory_ = 0, most_ = 0;
    tlm_utils::peq_with_cb_and_phase<Target> queue_;
    sc_core::sc_event room_;
    // Requests that wait for room; responses of which the first was begun; calls of b_transport.
    std::deque<tlm::tlm_generic_payload *> waiting_, responses_;
    std::vector<Blocked> blocked_;
};

inline void System::submit(Target *target, cxlab::Port &port, tlm::tlm_generic_payload &payload) {
    const std::uint64_t id = first_ + pending_.size();
    const std::uint64_t now = picoseconds(sc_core::sc_time_stamp());
    check(port.submit(id, payload.get_address(), payload.get_data_length(), payload.is_write(), now));
    pending_.push_back({target, &payload});
    schedule();
}

inline void System::step() {
    advance();
    cxlab::Completed done;
    while (system_.take(done)) {
        if (completed) {
            completed(done);
        }
        Pending &pending = pending_[done.id - first_];
        const Pending one = pending;
        pending.target = nullptr;
        while (!pending_.empty() && pending_.front().target == nullptr) {
            pending_.pop_front();
            first_++;
        }
        one.target->respond(*one.payload, done);
    }
    for (Target *target : targets_) {
        target->accept();
    }
    schedule();
}

}  // namespace cxlab_tlm

#endif
