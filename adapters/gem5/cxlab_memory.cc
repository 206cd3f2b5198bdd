#include "gem5/cxlab_memory.hh"

#include <algorithm>

#include "base/logging.hh"
#include "sim/system.hh"

namespace gem5
{

namespace memory
{

CxlabMemory::CxlabMemory(const Params &p)
    : AbstractMemory(p), coherent(p.coherent), latency(p.atomic_latency)
{
    fatal_if(p.hosts.size() != p.port_port_connection_count,
             "%s: hosts: found %d for %d ports; allowed: one for each port\n", name(), p.hosts.size(),
             p.port_port_connection_count);
    for (const auto &host : p.hosts) {
        ports.push_back(std::make_unique<CxlabPort>(*this, *p.cxlab, host, PortID(ports.size())));
    }
}

Port &
CxlabMemory::getPort(const std::string &if_name, PortID idx)
{
    if (if_name != "port" || std::size_t(idx) >= ports.size()) {
        return AbstractMemory::getPort(if_name, idx);
    }
    return *ports[idx];
}

void
CxlabMemory::init()
{
    AbstractMemory::init();
    requestor = system()->getRequestorId(this);
    for (auto &port : ports) {
        port->init();
    }
}

void
CxlabMemory::functional(PacketPtr pkt, CxlabPort &through)
{
    for (auto &port : ports) {
        if (coherent && port.get() != &through && !pkt->isResponse()) {
            port->sendFunctionalSnoop(pkt);
        }
    }
    if (!pkt->isResponse()) {
        functionalAccess(pkt);
    }
}

bool
CxlabMemory::isIdle() const
{
    return std::all_of(ports.begin(), ports.end(), [](const auto &port) { return port->isIdle(); });
}

DrainState
CxlabMemory::drain()
{
    return isIdle() ? DrainState::Drained : DrainState::Draining;
}

void
CxlabMemory::checkDrained()
{
    if (drainState() == DrainState::Draining && isIdle()) {
        signalDrainDone();
    }
}

} // namespace memory
} // namespace gem5
