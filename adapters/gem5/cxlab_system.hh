// A CXL system of cxlab in gem5's time.
#ifndef CXLAB_GEM5_SYSTEM_HH
#define CXLAB_GEM5_SYSTEM_HH

#include <string>
#include <vector>

#include <cxlab.hpp>

#include "params/CxlabSystem.hh"
#include "sim/eventq.hh"
#include "sim/sim_object.hh"

namespace gem5
{

class System;

// What a request does.
enum class CxlabKind { Read, Write, WriteBack };

// What has requests at a port of the system.
class CxlabClient
{
  public:
    virtual ~CxlabClient() = default;
    // A request completed at this tick, which has not passed.
    virtual void completed(const cxlab::Completed &request, Tick tick) = 0;
    // A snoop of the client's caches comes at this tick, which has not passed.
    virtual void snoop(const cxlab::Snoop &snoop, Tick tick) = 0;
    // The system has advanced to this tick, which has not passed.
    virtual void advanced(Tick tick) = 0;
};

// The time of cxlab stands still while gem5 is not in timing mode. In timing mode it is never beyond gem5's
// next event, so that a request is submitted at the tick at which gem5 sends it, or 1 ps later if cxlab has
// handled that tick.
class CxlabSystem : public SimObject
{
  public:
    PARAMS(CxlabSystem);
    CxlabSystem(const Params &p);

    // The port of this name, for its one client, whose system has the memory mode that counts. A missing port and a
    // second client are fatal.
    cxlab::Port attach(const std::string &name, CxlabClient &client, const System &of);
    // Submits a request of whole lines. The port has room.
    void submit(cxlab::Port &port, std::uint64_t id, Addr address, unsigned size, CxlabKind kind);
    // Answers a snoop.
    void answer(cxlab::Port &port, const cxlab::Snoop &snoop, bool changed);

    void startup() override;
    void drainResume() override;
    void resetStats() override;
    void serialize(CheckpointOut &cp) const override;
    void unserialize(CheckpointIn &cp) override;

  private:
    // cxlab runs where gem5 is in timing mode, and stands still elsewhere.
    void follow();
    // The present time of both, as cxlab counts it.
    Tick present() const;
    // Handles what happens before gem5's next event.
    void step();
    void stepAt(Tick tick);
    void check(const cxlab::Status &status, const char *what) const;
    void writeReport() const;

    const System *system = nullptr;
    cxlab::System simulated;
    std::vector<CxlabClient *> clients;
    // The tick of cxlab's time 0, which is negative where hosts have enumerated before.
    Tick offset = 0;
    bool following = false;
    EventFunctionWrapper stepEvent;
};

} // namespace gem5

#endif
