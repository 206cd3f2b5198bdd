// A memory of gem5 behind an external port of a CXL system.
#ifndef CXLAB_GEM5_MEMORY_HH
#define CXLAB_GEM5_MEMORY_HH

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/statistics.hh"
#include "gem5/cxlab_system.hh"
#include "mem/abstract_mem.hh"
#include "mem/packet_queue.hh"
#include "mem/qport.hh"
#include "params/CxlabMemory.hh"

namespace gem5
{

namespace memory
{

// Writes store their bytes when they are accepted, and reads fetch theirs when they complete. A write of a
// part of a line reads the line first.
class CxlabMemory : public AbstractMemory, public CxlabClient
{
  public:
    PARAMS(CxlabMemory);
    CxlabMemory(const Params &p);

    Port &getPort(const std::string &if_name, PortID idx = InvalidPortID) override;
    void init() override;
    DrainState drain() override;

    void completed(const cxlab::Completed &request, Tick tick) override;
    void advanced(Tick tick) override;

  private:
    class MemoryPort : public QueuedResponsePort
    {
      public:
        MemoryPort(const std::string &name, CxlabMemory &memory);
        void disableSanityCheck() { queue.disableSanityCheck(); }

      protected:
        Tick recvAtomic(PacketPtr pkt) override { return memory.recvAtomic(pkt); }
        void recvFunctional(PacketPtr pkt) override { memory.recvFunctional(pkt); }
        bool recvTimingReq(PacketPtr pkt) override { return memory.recvTimingReq(pkt); }
        AddrRangeList getAddrRanges() const override { return {memory.getAddrRange()}; }

      private:
        CxlabMemory &memory;
        RespPacketQueue queue;
    };

    // A packet that cxlab has. Its number is the id of its requests.
    struct Transaction
    {
        // A read, or the response to a write; null for a write without response.
        PacketPtr pkt = nullptr;
        // The lines of the packet, from the start of the memory.
        Addr address = 0;
        unsigned size = 0;
        Tick accepted = 0;
        // Delays of the crossbars before the memory, which come on top of the response.
        Tick delay = 0;
        bool write = false;
        // The lines of a partial write are being read.
        bool fetching = false;
    };

    struct Stats : public statistics::Group
    {
        Stats(CxlabMemory &memory);
        statistics::Scalar reads;
        statistics::Scalar writes;
        statistics::Scalar partialWrites;
        statistics::Scalar failed;
        statistics::Scalar refused;
        statistics::Scalar readTicks;
        statistics::Scalar writeTicks;
        statistics::Formula readLatency;
        statistics::Formula writeLatency;
    };

    Tick recvAtomic(PacketPtr pkt);
    void recvFunctional(PacketPtr pkt);
    bool recvTimingReq(PacketPtr pkt);
    void retry();

    CxlabSystem &cxlabSystem;
    const std::string host;
    const Tick atomicLatency;
    MemoryPort port;
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
    // A packet that the caller still uses when its request is accepted.
    std::unique_ptr<Packet> pendingDelete;
    Stats stats;
};

} // namespace memory
} // namespace gem5

#endif
