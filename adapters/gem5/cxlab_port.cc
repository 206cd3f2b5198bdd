#include "gem5/cxlab_port.hh"

#include "base/intmath.hh"
#include "base/logging.hh"
#include "base/trace.hh"
#include "debug/Cxlab.hh"
#include "gem5/cxlab_memory.hh"

namespace gem5
{

namespace memory
{

CxlabPort::Stats::Stats(statistics::Group &memory, const std::string &host)
    : statistics::Group(&memory, host.c_str()),
      ADD_STAT(reads, statistics::units::Count::get(), "Reads that completed"),
      ADD_STAT(writes, statistics::units::Count::get(),
               "Writes that completed, and requests of caches that want to change a line"),
      ADD_STAT(partialWrites, statistics::units::Count::get(),
               "Writes of a part of a line, which read it first"),
      ADD_STAT(writebacks, statistics::units::Count::get(), "Changed lines that caches gave up"),
      ADD_STAT(snoops, statistics::units::Count::get(), "Snoops of the caches"),
      ADD_STAT(snoopWritebacks, statistics::units::Count::get(),
               "Snoops to which a cache responded with a changed line"),
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

CxlabPort::CxlabPort(CxlabMemory &memory, CxlabSystem &system, const std::string &host, PortID id)
    : QueuedResponsePort(memory.name() + ".port." + host, queue, id), memory(memory),
      cxlabSystem(system), host(host), queue(memory, *this, true),
      retryEvent([this] { retry(); }, name() + ".retry"),
      snoopEvent([this] { sendSnoops(); }, name() + ".snoop"), stats(memory, host)
{
    // The lines in flight limit the number of responses, not the 1,024 of the check.
    queue.disableSanityCheck();
}

void
CxlabPort::init()
{
    fatal_if(!isConnected(), "%s: not connected\n", name());
    outside = cxlabSystem.attach(host, *this, *memory.system());
    const cxlab::PortInfo info = outside.info();
    lineBytes = info.line_bytes;
    mostBytes = info.most_bytes;
    const AddrRange range = memory.getAddrRange();
    fatal_if(range.size() > info.memory_bytes,
             "%s: range: found %d bytes; allowed: at most the %d that host \"%s\" of the scenario reaches\n",
             memory.name(), range.size(), info.memory_bytes, host);
    fatal_if(range.interleaved() && range.granularity() % lineBytes != 0,
             "%s: range: found interleaving by %d bytes; allowed: multiples of %d\n", memory.name(),
             range.granularity(), lineBytes);
    fatal_if(range.interleaved() && memory.isCoherent(),
             "%s: range: found an interleaved range of a coherent memory; allowed: one that is not\n",
             memory.name());
    sendRangeChange();
}

AddrRangeList
CxlabPort::getAddrRanges() const
{
    return {memory.getAddrRange()};
}

Tick
CxlabPort::recvAtomic(PacketPtr pkt)
{
    fatal_if(memory.isCoherent(), "%s: found atomic mode at a coherent memory; allowed: timing mode\n", name());
    panic_if(pkt->cacheResponding(), "%s: a cache responds to %s\n", name(), pkt->print());
    memory.access(pkt);
    return memory.atomicLatency();
}

void
CxlabPort::recvFunctional(PacketPtr pkt)
{
    pkt->pushLabel(name());
    if (!trySatisfyFunctional(pkt)) {
        memory.functional(pkt, *this);
    }
    pkt->popLabel();
}

std::uint32_t
CxlabPort::take()
{
    std::uint32_t number;
    if (unused.empty()) {
        number = transactions.size();
        transactions.emplace_back();
    } else {
        number = unused.back();
        unused.pop_back();
    }
    std::unique_ptr<MSHR> mshr = std::move(transactions[number].mshr);
    transactions[number] = {};
    transactions[number].mshr = std::move(mshr);
    transactions[number].inUse = true;
    return number;
}

void
CxlabPort::dispose(PacketPtr pkt)
{
    pendingDelete.reset(pkt);
}

bool
CxlabPort::givesUp(PacketPtr pkt) const
{
    return memory.isCoherent() && (pkt->isEviction() || pkt->cmd == MemCmd::WriteClean);
}

bool
CxlabPort::recvTimingReq(PacketPtr pkt)
{
    if (memory.isCoherent() && pkt->isExpressSnoop()) {
        // A cache responds that has the line in Owned state. The port has it alone then.
        dispose(pkt);
        return true;
    }
    panic_if(pkt->cacheResponding(), "%s: a cache responds to %s\n", name(), pkt->print());
    panic_if(!memory.isCoherent() && !pkt->isRead() && !pkt->isWrite(), "%s: %s is no read or write\n",
             name(), pkt->print());
    if (waiting) {
        return false;
    }
    const bool gives_up = givesUp(pkt);
    if (gives_up && pkt->cmd != MemCmd::WritebackDirty) {
        // A clean line needs no notice, and a cache that cleans a line keeps it.
        memory.access(pkt);
        dispose(pkt);
        return true;
    }
    // Partial writes whose lines were read come first.
    if (!fetched.empty() || outside.room() == 0) {
        stats.refused++;
        waiting = true;
        return false;
    }
    const Addr first = memory.getAddrRange().getOffset(pkt->getAddr());
    const Addr end = roundUp(first + pkt->getSize(), Addr(lineBytes));
    const std::uint32_t number = take();
    Transaction &transaction = transactions[number];
    transaction.address = roundDown(first, Addr(lineBytes));
    transaction.size = end - transaction.address;
    fatal_if(transaction.size > mostBytes, "%s: found a request of %d bytes; allowed: at most %d\n", name(),
             pkt->getSize(), mostBytes);
    transaction.accepted = curTick();
    transaction.delay = pkt->headerDelay + pkt->payloadDelay;
    pkt->headerDelay = pkt->payloadDelay = 0;
    transaction.pkt = pkt;
    const bool changes = memory.isCoherent() && pkt->isInvalidate();
    transaction.kind = gives_up                      ? CxlabKind::WriteBack
                       : pkt->isWrite() || changes ? CxlabKind::Write
                                                     : CxlabKind::Read;
    // An atomic operation, and a write under a mask, need the line as a partial write does. A coherent port has
    // a cache, which fetches the line.
    transaction.fetching = !memory.isCoherent() && pkt->isWrite() &&
                           (transaction.size != pkt->getSize() || pkt->isRead() || pkt->isMaskedWrite());
    if (gives_up || (!memory.isCoherent() && pkt->isWrite())) {
        const bool response = pkt->needsResponse();
        memory.access(pkt);
        transaction.stored = true;
        if (!response) {
            transaction.pkt = nullptr;
            dispose(pkt);
        }
    }
    if (transaction.fetching) {
        stats.partialWrites++;
    }
    if (memory.isCoherent() && !gives_up && !pkt->req->isUncacheable()) {
        if (!transaction.mshr) {
            transaction.mshr = std::make_unique<MSHR>(name() + ".mshr");
        }
        transaction.ordering = true;
        transaction.mshr->allocate(pkt->getBlockAddr(lineBytes), lineBytes, pkt, curTick(), 0, false);
    }
    ++outstanding;
    submit(number);
    return true;
}

void
CxlabPort::submit(std::uint32_t number)
{
    const Transaction &transaction = transactions[number];
    const CxlabKind kind = transaction.fetching ? CxlabKind::Read : transaction.kind;
    cxlabSystem.submit(outside, number, transaction.address, transaction.size, kind);
}

void
CxlabPort::completed(const cxlab::Completed &request, Tick tick)
{
    const std::uint32_t number = request.id;
    Transaction &transaction = transactions[number];
    const bool shared = request.outcome == CXLAB_SHARED;
    const bool failed = !shared && request.outcome != CXLAB_SERVED;
    if (transaction.fetching && !failed) {
        transaction.fetching = false;
        fetched.push_back(number);
        return;
    }
    if (failed) {
        stats.failed++;
    }
    const Tick latency = tick - transaction.accepted;
    if (transaction.kind == CxlabKind::WriteBack) {
        stats.writebacks++;
    } else if (transaction.kind == CxlabKind::Write) {
        stats.writes++;
        stats.writeTicks += latency;
    } else {
        stats.reads++;
        stats.readTicks += latency;
    }
    respond(transaction, failed, shared, tick);
    transaction.inUse = false;
    unused.push_back(number);
    --outstanding;
    memory.checkDrained();
}

void
CxlabPort::respond(Transaction &transaction, bool failed, bool shared, Tick tick)
{
    if (transaction.ordering) {
        // From here on, the request precedes snoops.
        transaction.mshr->markInService(false);
        transaction.mshr->popTarget();
        transaction.mshr->deallocate();
        transaction.ordering = false;
    }
    PacketPtr pkt = transaction.pkt;
    if (!pkt) {
        warn_if(failed, "%s: a write without response failed\n", name());
        return;
    }
    if (!transaction.stored) {
        if (shared && !pkt->needsWritable()) {
            pkt->setHasSharers();
        }
        memory.access(pkt);
    }
    if (failed) {
        pkt->setBadAddress();
    }
    // Who gets the response may send a request for the next picosecond, not for this one.
    schedTimingResp(pkt, tick + 1 + transaction.delay);
}

void
CxlabPort::snoop(const cxlab::Snoop &snoop, Tick tick)
{
    fatal_if(!memory.isCoherent(),
             "%s: found host \"%s\" with `snooped = true`; allowed: with coherent=True\n", name(), host);
    toSend.emplace_back(tick, snoop);
    if (!snoopEvent.scheduled()) {
        memory.schedule(snoopEvent, tick);
    }
}

void
CxlabPort::sendSnoops()
{
    while (!toSend.empty() && toSend.front().first <= curTick()) {
        const cxlab::Snoop snoop = toSend.front().second;
        toSend.pop_front();
        send(snoop);
    }
    if (!toSend.empty()) {
        memory.schedule(snoopEvent, toSend.front().first);
    }
}

void
CxlabPort::send(const cxlab::Snoop &snoop)
{
    const Addr address = memory.getAddrRange().start() + snoop.address;
    auto request = std::make_shared<Request>(address, lineBytes, 0, memory.requestorId());
    // A cache that has a line in Owned state would want to change it without asking. So caches give lines up, also
    // where they might share them.
    Packet pkt(request, MemCmd::ReadExReq);
    pkt.allocate();
    pkt.setExpressSnoop();
    bool changed = false;
    for (Transaction &transaction : transactions) {
        if (!transaction.inUse || transaction.address != snoop.address) {
            continue;
        }
        changed |= transaction.kind == CxlabKind::WriteBack;
        if (transaction.ordering) {
            transaction.mshr->handleSnoop(&pkt, 0);
        }
    }
    stats.snoops++;
    sendTimingSnoopReq(&pkt);
    DPRINTF(Cxlab, "snoop of %#x: %s\n", address, pkt.cacheResponding() ? "changed" : "clean or absent");
    if (pkt.cacheResponding()) {
        snooped[address] = snoop;
    } else {
        answer(snoop, changed);
    }
}

bool
CxlabPort::recvTimingSnoopResp(PacketPtr pkt)
{
    const auto found = snooped.find(pkt->getAddr());
    panic_if(found == snooped.end(), "%s: %s responds to no snoop\n", name(), pkt->print());
    Packet store(pkt->req, MemCmd::WriteReq);
    store.dataStaticConst(pkt->getConstPtr<std::uint8_t>());
    memory.functionalAccess(&store);
    const cxlab::Snoop snoop = found->second;
    snooped.erase(found);
    stats.snoopWritebacks++;
    answer(snoop, true);
    delete pkt;
    memory.checkDrained();
    return true;
}

void
CxlabPort::answer(const cxlab::Snoop &snoop, bool changed)
{
    cxlabSystem.answer(outside, snoop, changed);
}

void
CxlabPort::advanced(Tick tick)
{
    while (!fetched.empty() && outside.room() > 0) {
        const std::uint32_t number = fetched.front();
        fetched.pop_front();
        submit(number);
    }
    if (waiting && !retryEvent.scheduled() && fetched.empty() && outside.room() > 0) {
        memory.schedule(retryEvent, tick + 1);
    }
}

void
CxlabPort::retry()
{
    waiting = false;
    sendRetryReq();
}

} // namespace memory
} // namespace gem5
