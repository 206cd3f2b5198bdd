#include "gem5/cxlab_memory.hh"

#include "base/intmath.hh"
#include "base/logging.hh"
#include "base/trace.hh"
#include "debug/Cxlab.hh"
#include "sim/system.hh"

namespace gem5
{

namespace memory
{

CxlabMemory::MemoryPort::MemoryPort(const std::string &name, CxlabMemory &memory)
    : QueuedResponsePort(name, queue), memory(memory), queue(memory, *this, true)
{
    // The lines in flight limit the number of responses, not the 1,024 of the check.
    queue.disableSanityCheck();
}

CxlabMemory::Stats::Stats(CxlabMemory &memory)
    : statistics::Group(&memory, "cxlab"),
      ADD_STAT(reads, statistics::units::Count::get(), "Reads that completed"),
      ADD_STAT(writes, statistics::units::Count::get(), "Writes that completed"),
      ADD_STAT(partialWrites, statistics::units::Count::get(),
               "Writes of a part of a line, which read it first"),
      ADD_STAT(failed, statistics::units::Count::get(), "Requests that failed"),
      ADD_STAT(refused, statistics::units::Count::get(), "Requests that found the port full"),
      ADD_STAT(readTicks, statistics::units::Tick::get(), "Sum of the latencies of reads"),
      ADD_STAT(writeTicks, statistics::units::Tick::get(), "Sum of the latencies of writes"),
      ADD_STAT(readLatency,
               statistics::units::Rate<statistics::units::Tick, statistics::units::Count>::get(),
               "Mean latency of a read, from acceptance to completion", readTicks / reads),
      ADD_STAT(writeLatency,
               statistics::units::Rate<statistics::units::Tick, statistics::units::Count>::get(),
               "Mean latency of a write, from acceptance to completion", writeTicks / writes)
{
}

CxlabMemory::CxlabMemory(const Params &p)
    : AbstractMemory(p), cxlabSystem(*p.cxlab), host(p.host), atomicLatency(p.atomic_latency),
      port(name() + ".port", *this), retryEvent([this] { retry(); }, name() + ".retry"), stats(*this)
{
}

Port &
CxlabMemory::getPort(const std::string &if_name, PortID idx)
{
    return if_name == "port" ? port : AbstractMemory::getPort(if_name, idx);
}

void
CxlabMemory::init()
{
    AbstractMemory::init();
    fatal_if(!port.isConnected(), "%s: port: not connected\n", name());
    outside = cxlabSystem.attach(host, *this);
    const cxlab::PortInfo info = outside.info();
    lineBytes = info.line_bytes;
    mostBytes = info.most_bytes;
    fatal_if(range.size() > info.memory_bytes,
             "%s: range: found %d bytes; allowed: at most the %d that host \"%s\" of the scenario reaches\n",
             name(), range.size(), info.memory_bytes, host);
    fatal_if(range.interleaved() && range.granularity() % lineBytes != 0,
             "%s: range: found interleaving by %d bytes; allowed: multiples of %d\n", name(),
             range.granularity(), lineBytes);
    port.sendRangeChange();
}

DrainState
CxlabMemory::drain()
{
    return outstanding == 0 ? DrainState::Drained : DrainState::Draining;
}

Tick
CxlabMemory::recvAtomic(PacketPtr pkt)
{
    panic_if(pkt->cacheResponding(), "%s: a cache responds to %s\n", name(), pkt->print());
    access(pkt);
    return atomicLatency;
}

void
CxlabMemory::recvFunctional(PacketPtr pkt)
{
    pkt->pushLabel(name());
    if (!port.trySatisfyFunctional(pkt)) {
        functionalAccess(pkt);
    }
    pkt->popLabel();
}

bool
CxlabMemory::recvTimingReq(PacketPtr pkt)
{
    panic_if(pkt->cacheResponding(), "%s: a cache responds to %s\n", name(), pkt->print());
    panic_if(!pkt->isRead() && !pkt->isWrite(), "%s: %s is no read or write\n", name(), pkt->print());
    if (waiting) {
        return false;
    }
    // Partial writes whose lines were read come first.
    if (!fetched.empty() || outside.room() == 0) {
        stats.refused++;
        waiting = true;
        return false;
    }
    const Addr first = range.getOffset(pkt->getAddr());
    const Addr end = roundUp(first + pkt->getSize(), Addr(lineBytes));
    std::uint32_t number;
    if (unused.empty()) {
        number = transactions.size();
        transactions.emplace_back();
    } else {
        number = unused.back();
        unused.pop_back();
    }
    Transaction &transaction = transactions[number];
    transaction = {};
    transaction.address = roundDown(first, Addr(lineBytes));
    transaction.size = end - transaction.address;
    fatal_if(transaction.size > mostBytes, "%s: found a request of %d bytes; allowed: at most %d\n", name(),
             pkt->getSize(), mostBytes);
    transaction.accepted = curTick();
    transaction.delay = pkt->headerDelay + pkt->payloadDelay;
    pkt->headerDelay = pkt->payloadDelay = 0;
    transaction.write = pkt->isWrite();
    // An atomic operation, and a write under a mask, need the line as a partial write does.
    transaction.fetching = transaction.write && (transaction.size != pkt->getSize() || pkt->isRead() ||
                                                 pkt->isMaskedWrite());
    transaction.pkt = pkt;
    if (transaction.write) {
        const bool response = pkt->needsResponse();
        access(pkt);
        if (!response) {
            transaction.pkt = nullptr;
            pendingDelete.reset(pkt);
        }
    }
    if (transaction.fetching) {
        stats.partialWrites++;
    }
    ++outstanding;
    cxlabSystem.submit(outside, number, transaction.address, transaction.size,
                       transaction.write && !transaction.fetching);
    return true;
}

void
CxlabMemory::completed(const cxlab::Completed &request, Tick tick)
{
    const std::uint32_t number = request.id;
    Transaction &transaction = transactions[number];
    const bool failed = request.outcome != CXLAB_SERVED;
    if (transaction.fetching && !failed) {
        transaction.fetching = false;
        fetched.push_back(number);
        return;
    }
    if (failed) {
        stats.failed++;
    }
    const Tick latency = tick - transaction.accepted;
    if (transaction.write) {
        stats.writes++;
        stats.writeTicks += latency;
    } else {
        stats.reads++;
        stats.readTicks += latency;
    }
    if (PacketPtr pkt = transaction.pkt) {
        if (!transaction.write) {
            access(pkt);
        }
        if (failed) {
            pkt->setBadAddress();
        }
        // Who gets the response may send a request for the next picosecond, not for this one.
        port.schedTimingResp(pkt, tick + 1 + transaction.delay);
    } else {
        warn_if(failed, "%s: a write without response failed\n", name());
    }
    unused.push_back(number);
    --outstanding;
    if (outstanding == 0 && drainState() == DrainState::Draining) {
        signalDrainDone();
    }
}

void
CxlabMemory::advanced(Tick tick)
{
    while (!fetched.empty() && outside.room() > 0) {
        const Transaction &transaction = transactions[fetched.front()];
        cxlabSystem.submit(outside, fetched.front(), transaction.address, transaction.size, true);
        fetched.pop_front();
    }
    if (waiting && !retryEvent.scheduled() && fetched.empty() && outside.room() > 0) {
        schedule(retryEvent, tick + 1);
    }
}

void
CxlabMemory::retry()
{
    waiting = false;
    port.sendRetryReq();
}

} // namespace memory
} // namespace gem5
