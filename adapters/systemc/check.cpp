// A check of the SystemC adapter: submits the requests of examples/coupling/requests.c with the approximately timed
// interface, or reads back what it has written with the loosely timed one.
//
//   check at SCENARIO REQUESTS GAP_PS
//   check lt SCENARIO
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>

#include <tlm_utils/simple_initiator_socket.h>

#include "cxlab_tlm.h"

namespace {

struct Generator {
    std::uint64_t state = 0x9e3779b97f4a7c15;

    std::uint64_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state;
    }
};

struct Sum {
    std::uint64_t count = 0;
    std::uint64_t hash = 0xcbf29ce484222325;

    void add(std::uint64_t number) {
        for (int byte = 0; byte < 8; byte++) {
            hash = (hash ^ (number >> (8 * byte) & 0xff)) * 0x100000001b3;
        }
    }
};

[[noreturn]] void fail(const char *why) {
    std::fprintf(stderr, "error: %s\n", why);
    std::exit(1);
}

// Submits requests at their times, without waiting for responses. It is the memory manager of its payloads.
class AtInitiator : public sc_core::sc_module, public tlm::tlm_mm_interface {
public:
    SC_HAS_PROCESS(AtInitiator);
    tlm_utils::simple_initiator_socket<AtInitiator> socket;

    AtInitiator(sc_core::sc_module_name name, cxlab_tlm::Target &target, std::uint64_t requests,
                std::uint64_t gap)
        : sc_module(name), socket("socket"), target_(target), requests_(requests), gap_(gap) {
        socket.register_nb_transport_bw(this, &AtInitiator::nb_transport_bw);
        SC_THREAD(run);
    }

    std::uint64_t responses = 0;

    void free(tlm::tlm_generic_payload *payload) override {
        payload->reset();
        unused_.push_back(payload);
    }

private:
    tlm::tlm_generic_payload &payload() {
        if (unused_.empty()) {
            unused_.push_back(new tlm::tlm_generic_payload(this));
        }
        tlm::tlm_generic_payload &one = *unused_.back();
        unused_.pop_back();
        return one;
    }

    void run() {
        const std::uint64_t lines = target_.port().info().memory_bytes / 64;
        Generator generator;
        for (std::uint64_t id = 0; id < requests_; id++) {
            tlm::tlm_generic_payload &one = payload();
            one.acquire();
            one.set_address(generator.next() % lines * 64);
            one.set_command(generator.next() % 4 == 0 ? tlm::TLM_WRITE_COMMAND
                                                      : tlm::TLM_READ_COMMAND);
            one.set_data_ptr(data_);
            one.set_data_length(64);
            one.set_streaming_width(64);
            one.set_byte_enable_ptr(nullptr);
            one.set_dmi_allowed(false);
            one.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
            tlm::tlm_phase phase = tlm::BEGIN_REQ;
            sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
            if (socket->nb_transport_fw(one, phase, delay) != tlm::TLM_ACCEPTED) {
                fail("a request was not accepted");
            }
            sc_core::wait(accepted_);
            if (id + 1 == requests_) {
                cxlab_tlm::System::check(target_.port().close());
            } else {
                const double span = static_cast<double>(1 + generator.next() % (2 * gap_));
                sc_core::wait(sc_core::sc_time(span, sc_core::SC_PS));
            }
        }
    }

    tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload &one, tlm::tlm_phase &phase,
                                       sc_core::sc_time &) {
        if (phase == tlm::END_REQ) {
            accepted_.notify(sc_core::SC_ZERO_TIME);
            return tlm::TLM_ACCEPTED;
        }
        if (phase != tlm::BEGIN_RESP || !one.is_response_ok()) {
            fail("a phase or a response that was not expected");
        }
        responses++;
        one.release();
        phase = tlm::END_RESP;
        return tlm::TLM_UPDATED;
    }

    cxlab_tlm::Target &target_;
    std::uint64_t requests_, gap_;
    sc_core::sc_event accepted_;
    std::deque<tlm::tlm_generic_payload *> unused_;
    unsigned char data_[64] = {};
};

// Writes lines and reads them back, ahead of SystemC's time, and checks what the target refuses.
class LtInitiator : public sc_core::sc_module {
public:
    SC_HAS_PROCESS(LtInitiator);
    tlm_utils::simple_initiator_socket<LtInitiator> socket;

    explicit LtInitiator(sc_core::sc_module_name name) : sc_module(name), socket("socket") {
        SC_THREAD(run);
    }

    bool ended = false;

private:
    tlm::tlm_response_status access(tlm::tlm_command command, std::uint64_t address, unsigned length,
                                    unsigned char *enables = nullptr) {
        tlm::tlm_generic_payload one;
        one.set_command(command);
        one.set_address(address);
        one.set_data_ptr(data_);
        one.set_data_length(length);
        one.set_streaming_width(length);
        one.set_byte_enable_ptr(enables);
        one.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
        socket->b_transport(one, delay_);
        return one.get_response_status();
    }

    void run() {
        const sc_core::sc_time ahead(3, sc_core::SC_NS);
        for (unsigned line = 0; line < 16; line++) {
            std::memset(data_, static_cast<int>(line + 1), 128);
            delay_ = ahead;
            const sc_core::sc_time before = sc_core::sc_time_stamp();
            if (access(tlm::TLM_WRITE_COMMAND, line * 128, 128) != tlm::TLM_OK_RESPONSE) {
                fail("a write failed");
            }
            const sc_core::sc_time took = sc_core::sc_time_stamp() + delay_ - before - ahead;
            if (took < sc_core::sc_time(50, sc_core::SC_NS)) {
                fail("a write took no time");
            }
        }
        for (unsigned line = 0; line < 16; line++) {
            std::memset(data_, 0, 128);
            delay_ = ahead;
            if (access(tlm::TLM_READ_COMMAND, line * 128, 128) != tlm::TLM_OK_RESPONSE ||
                data_[0] != line + 1 || data_[127] != line + 1) {
                fail("a read did not return what was written");
            }
        }
        unsigned char enables[1] = {0xff};
        if (access(tlm::TLM_READ_COMMAND, 0, 64, enables) != tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE ||
            access(tlm::TLM_READ_COMMAND, 0, 4) != tlm::TLM_BURST_ERROR_RESPONSE ||
            access(tlm::TLM_READ_COMMAND, 32, 64) != tlm::TLM_BURST_ERROR_RESPONSE ||
            access(tlm::TLM_READ_COMMAND, std::uint64_t(1) << 60, 64) !=
                tlm::TLM_ADDRESS_ERROR_RESPONSE ||
            access(tlm::TLM_IGNORE_COMMAND, 0, 64) != tlm::TLM_OK_RESPONSE) {
            fail("a response is not that of the standard");
        }
        tlm::tlm_generic_payload one;
        tlm::tlm_dmi dmi;
        if (socket->get_direct_mem_ptr(one, dmi)) {
            fail("DMI was not refused");
        }
        one.set_command(tlm::TLM_READ_COMMAND);
        one.set_address(130);
        one.set_data_ptr(data_);
        one.set_data_length(3);
        if (socket->transport_dbg(one) != 3 || data_[0] != 2) {
            fail("transport_dbg did not read what was written");
        }
        ended = true;
    }

    unsigned char data_[128] = {};
    sc_core::sc_time delay_;
};

}  // namespace

int sc_main(int argc, char **argv) {
    const std::string kind = argc > 2 ? argv[1] : "";
    if ((kind != "at" || argc != 5) && (kind != "lt" || argc != 3)) {
        std::fprintf(stderr, "usage: check at SCENARIO REQUESTS GAP_PS, or check lt SCENARIO\n");
        return 2;
    }
    Sum sum;
    cxlab_tlm::System system("cxl", cxlab::Options().path(argv[2]));
    system.completed = [&](const cxlab::Completed &completed) {
        sum.count++;
        sum.add(completed.id);
        sum.add(completed.issued);
        sum.add(completed.completed);
    };
    cxlab_tlm::Target target("target", system, "outside");
    if (kind == "lt") {
        LtInitiator initiator("initiator");
        initiator.socket.bind(target.socket);
        sc_core::sc_start();
        std::printf("%s\n", initiator.ended ? "ok" : "not ended");
        return initiator.ended ? 0 : 1;
    }
    const std::uint64_t requests = std::strtoull(argv[3], nullptr, 10);
    AtInitiator initiator("initiator", target, requests, std::strtoull(argv[4], nullptr, 10));
    initiator.socket.bind(target.socket);
    sc_core::sc_start();
    std::printf("completed %" PRIu64 " hash %016" PRIx64 " digest %016" PRIx64 "\n", sum.count, sum.hash,
                system.system().digest());
    return initiator.responses == requests ? 0 : 1;
}
