// A port of a memory behind an external host of a CXL system.
#ifndef CXLAB_GEM5_PORT_HH
#define CXLAB_GEM5_PORT_HH

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/statistics.hh"
#include "gem5/cxlab_system.hh"
#include "mem/cache/mshr.hh"
#include "mem/packet_queue.hh"
#include "mem/qport.hh"

namespace gem5
{

namespace memory
{

class CxlabMemory;

// Reads fetch their bytes when they complete. At a coherent port, writes store theirs when they complete too, and
// caches store theirs when they give up a line. At other ports, writes store their bytes when they are accepted.
//
// A coherent port is to its caches what a lower level is to a cache of gem5: until the CXL system has completed a
// request, snoops precede it. This is what the MSHR of each transaction tells the caches above.
class CxlabPort : public QueuedResponsePort, public CxlabClient
{
  public:
    CxlabPort(CxlabMemory &memory, CxlabSystem &system, const std::string &host, PortID id);

    void init();
    // Whether no request is outstanding and no snoop is unanswered.
    bool isIdle() const { return outstanding == 0 && snooped.empty(); }

    void completed(const cxlab::Completed &request, Tick tick) override;
    void snoop(const cxlab::Snoop &snoop, Tick tick) override;
    void advanced(Tick tick) override;

  protected:
    Tick recvAtomic(PacketPtr pkt) override;
    void recvFunctional(PacketPtr pkt) override;
    bool recvTimingReq(PacketPtr pkt) override;
    bool recvTimingSnoopResp(PacketPtr pkt) override;
    AddrRangeList getAddrRanges() const override;

  private:
    // A packet that cxlab has. Its number is the id of its requests.
    struct Transaction
    {
        // A request, or the response to a write that is stored; null for a write without response.
        PacketPtr pkt = nullptr;
        // The lines of the packet, from the start of the memory.
        Addr address = 0;
        unsigned size = 0;
        Tick accepted = 0;
        // Delays of the crossbars before the memory, which come on top of the response.
        Tick delay = 0;
        CxlabKind kind = CxlabKind::Read;
        // Whether the packet's bytes are in the memory.
        bool stored = false;
        // The lines of a partial write are being read.
        bool fetching = false;
        bool inUse = false;
        // At a coherent port: whether the packet is in `mshr`, which is kept for the next one.
        bool ordering = false;
        std::unique_ptr<MSHR> mshr;
    };

    struct Stats : public statistics::Group
    {
        Stats(statistics::Group &memory, const std::string &host);
        statistics::Scalar reads;
        statistics::Scalar writes;
        statistics::Scalar partialWrites;
        statistics::Scalar writebacks;
        statistics::Scalar snoops;
        statistics::Scalar snoopWritebacks;
        statistics::Scalar failed;
        statistics::Scalar refused;
        statistics::Scalar readTicks;
        statistics::Scalar writeTicks;
        statistics::Formula readLatency;
        statistics::Formula writeLatency;
    };

    // A free transaction, by its number.
    std::uint32_t take();
    // Whether caches give up or clean a line with this packet.
    bool givesUp(PacketPtr pkt) const;
    // Deletes a packet after the caller has used it.
    void dispose(PacketPtr pkt);
    void submit(std::uint32_t number);
    void respond(Transaction &transaction, bool failed, bool shared, Tick tick);
    // Sends the snoops that are due to the caches.
    void sendSnoops();
    void send(const cxlab::Snoop &snoop);
    void answer(const cxlab::Snoop &snoop, bool changed);
    void retry();

    CxlabMemory &memory;
    CxlabSystem &cxlabSystem;
    const std::string host;
    RespPacketQueue queue;
    cxlab::Port outside;
    unsigned lineBytes = 0;
    unsigned mostBytes = 0;
    std::vector<Transaction> transactions;
    std::vector<std::uint32_t> unused;
    // Partial writes whose lines were read, and which the port has no room for.
    std::deque<std::uint32_t> fetched;
    unsigned outstanding = 0;
    // A request was refused, and its sender waits to be told to try again.
    bool waiting = false;
    EventFunctionWrapper retryEvent;
    // Snoops that are sent at their ticks, and those that wait for the bytes of a cache, by the line's address.
    std::deque<std::pair<Tick, cxlab::Snoop>> toSend;
    std::unordered_map<Addr, cxlab::Snoop> snooped;
    EventFunctionWrapper snoopEvent;
    // A packet that the caller still uses when its request is accepted.
    std::unique_ptr<Packet> pendingDelete;
    Stats stats;
};

} // namespace memory
} // namespace gem5

#endif
