#include "gem5/cxlab_system.hh"

#include <algorithm>

#include "base/logging.hh"
#include "base/output.hh"
#include "base/trace.hh"
#include "debug/Cxlab.hh"
#include "sim/core.hh"
#include "sim/serialize.hh"
#include "sim/system.hh"

namespace gem5
{

namespace
{

// cxlab is at most this far ahead of gem5: completions are handed over at once, and gem5 schedules them.
constexpr Tick mostAhead = 100'000'000;

} // namespace

CxlabSystem::CxlabSystem(const Params &p)
    : SimObject(p),
      stepEvent([this] { step(); }, name() + ".step", false, Event::CPU_Tick_Pri + 1)
{
    fatal_if(sim_clock::Frequency != 1'000'000'000'000ULL,
             "%s: found %d ticks a second; allowed: 10^12, since cxlab counts picoseconds\n", name(),
             sim_clock::Frequency);
    fatal_if(numMainEventQueues > 1, "%s: found %d event queues; allowed: one\n", name(),
             numMainEventQueues);
    cxlab::Options options;
    options.path(p.scenario).seed(p.seed);
    for (const auto &change : p.changes) {
        options.set(change);
    }
    if (p.can_save) {
        options.can_save();
    }
    check(simulated.open(options), "scenario");
    clients.resize(simulated.port_count());
    registerExitCallback([this] { writeReport(); });
}

void
CxlabSystem::check(const cxlab::Status &status, const char *what) const
{
    fatal_if(!status, "%s: %s: %s\n", name(), what, status.text());
}

cxlab::Port
CxlabSystem::attach(const std::string &port_name, CxlabClient &client, const System &of)
{
    cxlab::Port port;
    check(simulated.find_port(port_name.c_str(), port), "host");
    fatal_if(clients[port.number()], "%s: host: found \"%s\" at two memories; allowed: at one\n", name(),
             port_name);
    clients[port.number()] = &client;
    system = &of;
    return port;
}

void
CxlabSystem::submit(cxlab::Port &port, std::uint64_t id, Addr address, unsigned size, CxlabKind kind)
{
    if (!following) {
        follow();
    }
    const Tick time = present();
    check(kind == CxlabKind::WriteBack
              ? port.write_back(id, address, size, time)
              : port.submit(id, address, size, kind == CxlabKind::Write, time),
          "request");
    stepAt(curTick());
}

void
CxlabSystem::answer(cxlab::Port &port, const cxlab::Snoop &snoop, bool changed)
{
    check(port.answer(snoop, changed, present()), "answer");
    stepAt(curTick());
}

Tick
CxlabSystem::present() const
{
    return std::max(curTick() - offset, simulated.now());
}

void
CxlabSystem::stepAt(Tick tick)
{
    if (!stepEvent.scheduled()) {
        schedule(stepEvent, tick);
    } else if (stepEvent.when() > tick) {
        reschedule(stepEvent, tick);
    }
}

void
CxlabSystem::step()
{
    const Tick furthest = curTick() + mostAhead;
    for (;;) {
        const std::uint64_t time = simulated.next_event();
        if (time == CXLAB_NO_EVENT) {
            return;
        }
        const Tick tick = time + offset;
        // Clients schedule what they do, so gem5's next event moves to here in this loop.
        const bool first = eventQueue()->empty() || tick < eventQueue()->nextTick();
        if (tick > curTick() && (!first || tick > furthest)) {
            stepAt(tick);
            return;
        }
        check(simulated.advance(time + 1), "medium");
        cxlab::Completed request;
        while (simulated.take(request)) {
            DPRINTF(Cxlab, "port %d: request %d completed\n", request.port, request.id);
            if (CxlabClient *client = clients[request.port]) {
                client->completed(request, request.completed + offset);
            }
        }
        cxlab::Snoop snoop;
        while (simulated.take(snoop)) {
            if (CxlabClient *client = clients[snoop.port]) {
                client->snoop(snoop, snoop.time + offset);
            }
        }
        for (CxlabClient *client : clients) {
            if (client) {
                client->advanced(tick);
            }
        }
    }
}

void
CxlabSystem::follow()
{
    const bool timing = system && system->isTimingMode();
    if (timing && !following) {
        offset = curTick() - simulated.now();
    }
    following = timing;
    if (timing) {
        stepAt(curTick());
    } else if (stepEvent.scheduled()) {
        deschedule(stepEvent);
    }
}

void
CxlabSystem::startup()
{
    follow();
}

void
CxlabSystem::drainResume()
{
    follow();
}

void
CxlabSystem::resetStats()
{
    check(simulated.begin_measurement(), "measurement");
}

void
CxlabSystem::writeReport() const
{
    std::string text;
    const cxlab::Status status = simulated.report(text);
    if (!status) {
        warn("%s: report: %s\n", name(), status.text());
        return;
    }
    OutputStream *file = simout.create(name() + ".json", false, true);
    *file->stream() << text << '\n';
    simout.close(file);
}

void
CxlabSystem::serialize(CheckpointOut &cp) const
{
    const std::string file = name() + ".cxlab";
    check(simulated.save((CheckpointIn::dir() + file).c_str()), "checkpoint");
    SERIALIZE_SCALAR(offset);
    SERIALIZE_SCALAR(following);
    paramOut(cp, "file", file);
}

void
CxlabSystem::unserialize(CheckpointIn &cp)
{
    std::string file;
    paramIn(cp, "file", file);
    check(simulated.restore((cp.getCptDir() + "/" + file).c_str()), "checkpoint");
    UNSERIALIZE_SCALAR(offset);
    UNSERIALIZE_SCALAR(following);
}

} // namespace gem5
