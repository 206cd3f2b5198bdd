// A backend of SST's memory controller: memory behind an external port of a CXL system.
#ifndef CXLAB_SST_BACKEND_H
#define CXLAB_SST_BACKEND_H

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <cxlab.hpp>
#include <sst/core/subcomponent.h>
#include <sst/elements/memHierarchy/membackend/memBackend.h>

namespace cxlab_sst {

struct SharedSystem;

// The controller's clock drives cxlab: requests are submitted at its cycles, and complete at the first cycle
// after their time. SST keeps the bytes. A write of a part of a line reads the line first.
class Backend : public SST::MemHierarchy::SimpleMemBackend {
public:
    SST_ELI_REGISTER_SUBCOMPONENT(Backend, "cxlabmemory", "backend", SST_ELI_ELEMENT_VERSION(1, 0, 0),
                                  "Memory behind an external port of a CXL system",
                                  SST::MemHierarchy::SimpleMemBackend)
    SST_ELI_DOCUMENT_PARAMS(
        MEMBACKEND_ELI_PARAMS,
        {"scenario", "A scenario file of cxlab with a host of kind external for each backend", ""},
        {"changes", "Changes of the scenario, as for cxlab run --set", "[]"},
        {"seed", "The seed of the scenario's random numbers", "1"},
        {"host", "Name of the external host, that of one backend", ""},
        {"system", "Backends that name the same system share it", ""},
        {"report", "A file for cxlab's report, written at the end", ""})

    Backend(SST::ComponentId_t id, SST::Params &params);

    bool issueRequest(ReqId id, SST::MemHierarchy::Addr address, bool write, unsigned bytes) override;
    bool clock(SST::Cycle_t cycle) override;
    void finish() override;

    // A request of this backend completed.
    void completed(const cxlab::Completed &request);

private:
    struct Transaction {
        ReqId id = 0;
        std::uint64_t address = 0;
        std::uint64_t size = 0;
        // The lines of a partial write are being read.
        bool fetching = false;
    };

    std::uint64_t now();
    void check(const cxlab::Status &status, const char *what);

    std::shared_ptr<SharedSystem> shared;
    cxlab::Port port;
    std::string report;
    std::uint64_t line_bytes = 64;
    std::vector<Transaction> transactions;
    std::vector<std::uint32_t> unused;
    // Partial writes whose lines were read, and which the port had no room for.
    std::deque<std::uint32_t> fetched;
    unsigned outstanding = 0;
};

}  // namespace cxlab_sst

#endif
