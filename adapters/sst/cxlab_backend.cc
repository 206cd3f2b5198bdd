#include "cxlab_backend.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>

#include <sst/core/rankInfo.h>

namespace cxlab_sst {

// A system and the backend of each of its ports.
struct SharedSystem {
    cxlab::System system;
    std::vector<Backend *> backends;
    bool reported = false;
};

namespace {

// Systems with a name, as long as a backend has them. Backends that share one are of one thread.
std::map<std::string, std::weak_ptr<SharedSystem>> named;

// Ends the simulation with one line on standard error; SST's own end for errors prints a backtrace. `code` is 2
// for a mistake of the user.
[[noreturn]] __attribute__((format(printf, 3, 4))) void stop(const Backend &backend, int code,
                                                             const char *format, ...) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s: ", backend.getName().c_str());
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    std::fputc('\n', stderr);
    std::exit(code);
}

}  // namespace

Backend::Backend(SST::ComponentId_t id, SST::Params &params) : SimpleMemBackend(id, params) {
    const std::string name = params.find<std::string>("system", "");
    if (!name.empty()) {
        const SST::RankInfo ranks = getNumRanks();
        if (ranks.rank * ranks.thread != 1) {
            stop(*this, 2, "system: found in a simulation on several ranks or threads; allowed: on one");
        }
        shared = named[name].lock();
    }
    if (!shared) {
        shared = std::make_shared<SharedSystem>();
        cxlab::Options options;
        options.path(params.find<std::string>("scenario", "")).seed(params.find<std::uint64_t>("seed", 1));
        std::vector<std::string> changes;
        params.find_array("changes", changes);
        for (const std::string &change : changes) {
            options.set(change);
        }
        check(shared->system.open(options), "scenario");
        shared->backends.resize(shared->system.port_count());
        if (!name.empty()) {
            named[name] = shared;
        }
    }
    const std::string host = params.find<std::string>("host", "");
    check(shared->system.find_port(host.c_str(), port), "host");
    Backend *&own = shared->backends[port.number()];
    if (own != nullptr) {
        stop(*this, 2, "host: found \"%s\" at two backends; allowed: at one", host.c_str());
    }
    own = this;
    const cxlab::PortInfo info = port.info();
    line_bytes = info.line_bytes;
    if (m_memSize > info.memory_bytes) {
        stop(*this, 2,
             "mem_size: found %zu bytes; allowed: at most the %llu that host \"%s\" of the scenario reaches",
             m_memSize, static_cast<unsigned long long>(info.memory_bytes), host.c_str());
    }
    report = params.find<std::string>("report", "");
}

void Backend::check(const cxlab::Status &status, const char *what) {
    if (!status) {
        stop(*this, 2, "%s: %s", what, status.text());
    }
}

std::uint64_t Backend::now() { return getCurrentSimTime("1ps"); }

bool Backend::issueRequest(ReqId id, SST::MemHierarchy::Addr address, bool write, unsigned bytes) {
    // Partial writes whose lines were read come first.
    if (!fetched.empty() || port.room() == 0) {
        return false;
    }
    // SST says how wide requests are, not how many bytes this one has. One that does not begin with a line
    // is of a part of that line.
    const std::uint64_t first = address / line_bytes * line_bytes;
    const bool partial = first != address;
    const std::uint64_t size = partial ? line_bytes : (bytes + line_bytes - 1) / line_bytes * line_bytes;
    std::uint32_t number = transactions.size();
    if (unused.empty()) {
        transactions.emplace_back();
    } else {
        number = unused.back();
        unused.pop_back();
    }
    const bool fetching = write && partial;
    transactions[number] = {id, first, size, fetching};
    check(port.submit(number, first, size, write && !fetching, now()), "request");
    ++outstanding;
    return true;
}

void Backend::completed(const cxlab::Completed &request) {
    Transaction &transaction = transactions[request.id];
    if (request.outcome != CXLAB_SERVED) {
        stop(*this, 1, "a request to address %llu failed, which SST has no word for",
             static_cast<unsigned long long>(transaction.address));
    }
    if (transaction.fetching) {
        transaction.fetching = false;
        fetched.push_back(request.id);
        return;
    }
    const ReqId id = transaction.id;
    unused.push_back(request.id);
    --outstanding;
    handleMemResponse(id);
}

bool Backend::clock(SST::Cycle_t) {
    check(shared->system.advance(now()), "medium");
    cxlab::Completed request;
    while (shared->system.take(request)) {
        shared->backends[request.port]->completed(request);
    }
    while (!fetched.empty() && port.room() > 0) {
        const Transaction &transaction = transactions[fetched.front()];
        check(port.submit(fetched.front(), transaction.address, transaction.size, true, now()), "request");
        fetched.pop_front();
    }
    // The clock may stop; a request makes it go on.
    return outstanding == 0;
}

void Backend::finish() {
    if (report.empty() || shared->reported) {
        return;
    }
    shared->reported = true;
    std::string text;
    check(shared->system.report(text), "report");
    std::FILE *file = std::fopen(report.c_str(), "w");
    if (file == nullptr || std::fprintf(file, "%s\n", text.c_str()) < 0 || std::fclose(file) != 0) {
        stop(*this, 1, "report: \"%s\" cannot be written", report.c_str());
    }
}

}  // namespace cxlab_sst
