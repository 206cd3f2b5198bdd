// MQSim as a medium of cxlab. See docs/guide/couple-a-medium.md. Licensed like cxlab, under
// Apache-2.0 or MIT.
//
// `config` is `xml=FILE`, an SSD configuration of MQSim, and optionally `cache=off|write|read|both`
// (default write, as in their workload.xml), `unit=BYTES` (default 4096) and `queue=REQUESTS`
// (default 256).
//
// The medium is MQSim's drive from the data cache inwards: cache, FTL, scheduling unit, flash.
// Requests go where its NVMe interface hands over those that it has fetched, so that neither PCIe
// nor NVMe queues are counted; CXL and the device's controller are cxlab's. A request reads or
// writes whole units. MQSim's clock has nanoseconds: a request arrives at the next one.
//
// The adapter runs the loop of `Engine::Start_simulation` step by step, which needs members that
// are private there (-fno-access-control in CMakeLists.txt). MQSim keeps its state in statics, so a
// process can have one drive.
#include <cstring>
#include <deque>
#include <fstream>

#include "medium.hpp"

#include "exec/Execution_Parameter_Set.h"
#include "exec/SSD_Device.h"
#include "sim/Engine.h"
#include "ssd/Host_Interface_NVMe.h"
#include "ssd/Stats.h"
#include "utils/Logical_Address_Partitioning_Unit.h"
#include "utils/rapidxml/rapidxml.hpp"

namespace {

using cxlab::ConfigError;
using SSD_Components::User_Request;

constexpr uint64_t ps_in_ns = 1000;
constexpr uint64_t sector_bytes = SECTOR_SIZE_IN_BYTE;

/// Where MQSim reports requests that are served.
struct Served {
    virtual ~Served() = default;
    virtual void served(User_Request *request) = 0;
};

/// The streams of MQSim's NVMe interface without its queues.
class Streams : public SSD_Components::Input_Stream_Manager_NVMe {
  public:
    Streams(SSD_Components::Host_Interface_Base *interface, Served &to)
        : Input_Stream_Manager_NVMe(interface, 1), to_(to) {}
    void Handle_serviced_request(User_Request *request) override { to_.served(request); }

  private:
    Served &to_;
};

/// Arrivals, as events of MQSim's engine.
class Arrivals : public MQSimEngine::Sim_Object {
  public:
    explicit Arrivals(Streams *streams) : Sim_Object("cxlab.Arrivals"), streams_(streams) {}
    void Start_simulation() override {}
    void Validate_simulation_config() override {}
    void Execute_simulator_event(MQSimEngine::Sim_Event *event) override {
        auto *request = static_cast<User_Request *>(event->Parameters);
        request->STAT_InitiationTime = Simulator->Time();
        streams_->segment_user_request(request);
        streams_->host_interface->broadcast_user_request_arrival_signal(request);
    }

  private:
    Streams *streams_;
};

SSD_Components::Caching_Mode caching_mode(const std::string &name) {
    const std::map<std::string, SSD_Components::Caching_Mode> modes = {
        {"off", SSD_Components::Caching_Mode::TURNED_OFF},
        {"write", SSD_Components::Caching_Mode::WRITE_CACHE},
        {"read", SSD_Components::Caching_Mode::READ_CACHE},
        {"both", SSD_Components::Caching_Mode::WRITE_READ_CACHE},
    };
    const auto found = modes.find(name);
    if (found == modes.end()) {
        throw ConfigError("`cache`: found `" + name + "`; allowed: off, write, read, both");
    }
    return found->second;
}

/// One flow over the whole drive.
IO_Flow_Parameter_Set_Synthetic whole_drive(SSD_Components::Caching_Mode mode) {
    const auto &device = Execution_Parameter_Set::SSD_Device_Configuration;
    IO_Flow_Parameter_Set_Synthetic flow{};
    flow.Type = Flow_Type::SYNTHETIC;
    flow.Device_Level_Data_Caching_Mode = mode;
    flow.Priority_Class = IO_Flow_Priority_Class::HIGH;
    const auto all = [](auto *&ids, int &count, unsigned int number) {
        count = static_cast<int>(number);
        ids = new std::remove_reference_t<decltype(*ids)>[number];
        for (unsigned int id = 0; id < number; id++) {
            ids[id] = static_cast<std::remove_reference_t<decltype(*ids)>>(id);
        }
    };
    all(flow.Channel_IDs, flow.Channel_No, device.Flash_Channel_Count);
    all(flow.Chip_IDs, flow.Chip_No, device.Chip_No_Per_Channel);
    all(flow.Die_IDs, flow.Die_No, device.Flash_Parameters.Die_No_Per_Chip);
    all(flow.Plane_IDs, flow.Plane_No, device.Flash_Parameters.Plane_No_Per_Die);
    return flow;
}

bool in_use = false;

class Medium : Served {
  public:
    Medium(const std::string &config, uint64_t capacity, uint64_t) {
        if (in_use) {
            throw ConfigError("MQSim has one state for a process; allowed: `in_process = false`, "
                              "or one device in the process");
        }
        const cxlab::Settings settings(config, {{"xml", "FILE"},
                                                {"cache", "off|write|read|both"},
                                                {"unit", "BYTES"},
                                                {"queue", "REQUESTS"}});
        const std::string xml = settings.required("xml");
        read_parameters(xml);
        const auto &device = Execution_Parameter_Set::SSD_Device_Configuration;
        const uint64_t page = device.Flash_Parameters.Page_Capacity;
        unit_ = settings.number("unit", 4096, sector_bytes, page);
        if ((unit_ & (unit_ - 1)) != 0) {
            throw ConfigError("`unit`: found " + std::to_string(unit_) +
                              "; allowed: a power of two");
        }
        queue_ = settings.number("queue", 256, 1, 65536);
        build(caching_mode(settings.text("cache", "write")));
        const uint64_t bytes =
            Utils::Logical_Address_Partitioning_Unit::LHA_count_allocate_to_flow_from_host_view(0) *
            sector_bytes;
        if (capacity > bytes) {
            throw ConfigError("`xml`: " + xml + " has a drive of " + std::to_string(bytes >> 20) +
                              " MiB, and the device " + std::to_string(capacity >> 20) +
                              " MiB; allowed: at most as much");
        }
        in_use = true;
    }

    ~Medium() override { in_use = false; }
    Medium(const Medium &) = delete;
    Medium &operator=(const Medium &) = delete;

    uint32_t granule() const { return static_cast<uint32_t>(unit_); }

    bool can_accept(uint64_t now, bool) {
        catch_up(now);
        refused_ = in_flight_ >= queue_;
        return !refused_;
    }

    void enqueue(uint64_t now, const cxlab_request &request) {
        catch_up(now);
        auto *user = new User_Request;
        const uint64_t first = request.address / unit_ * unit_;
        const uint64_t end = request.address + uint64_t(request.lines) * 64;
        const uint64_t bytes = (end - first + unit_ - 1) / unit_ * unit_;
        user->Stream_id = 0;
        user->Priority_class = IO_Flow_Priority_Class::HIGH;
        user->Start_LBA = first / sector_bytes;
        user->SizeInSectors = static_cast<unsigned int>(bytes / sector_bytes);
        user->Size_in_byte = static_cast<unsigned int>(bytes);
        user->Type = request.write != 0 ? SSD_Components::UserRequestType::WRITE
                                        : SSD_Components::UserRequestType::READ;
        user->IO_command_info = reinterpret_cast<void *>(static_cast<uintptr_t>(request.id));
        user->Data = nullptr;
        in_flight_ += 1;
        // Not before `now`, and not before what the engine has done.
        const uint64_t at = std::max((now_ + ps_in_ns - 1) / ps_in_ns, engine().Time());
        engine().Register_sim_event(at, arrivals_.get(), user);
    }

    uint64_t next_event() const {
        if (!ready_.empty()) {
            return std::max(ready_.front().at, now_);
        }
        if ((in_flight_ == 0 && !refused_) || engine()._EventList->Count == 0) {
            return CXLAB_NEVER;
        }
        return std::max(engine()._EventList->Get_min_key() * ps_in_ns, now_);
    }

    size_t advance(uint64_t now, cxlab_completion *done, size_t room) {
        catch_up(now);
        refused_ = refused_ && in_flight_ >= queue_;
        size_t count = 0;
        while (count < room && !ready_.empty()) {
            done[count++] = ready_.front();
            ready_.pop_front();
        }
        return count;
    }

    void begin_measurement(uint64_t now) {
        catch_up(now);
        before_ = counters();
    }

    /// MQSim's counters since the beginning of the measurement.
    cxlab::Statistics statistics() {
        cxlab::Statistics list = counters();
        for (size_t number = 0; number < before_.size(); number++) {
            list[number].second -= before_[number].second;
        }
        return list;
    }

  private:
    static MQSimEngine::Engine &engine() { return *Simulator; }

    static void read_parameters(const std::string &path) {
        std::ifstream file(path);
        std::stringstream text;
        if (!file || !(text << file.rdbuf())) {
            throw ConfigError("`xml`: cannot read `" + path + "`");
        }
        std::string content = text.str();
        rapidxml::xml_document<> document;
        try {
            document.parse<0>(content.data());
        } catch (const rapidxml::parse_error &error) {
            throw ConfigError("`xml`: " + path + ": " + error.what());
        }
        rapidxml::xml_node<> *node = document.first_node("Execution_Parameter_Set");
        if (node == nullptr || node->first_node("Device_Parameter_Set") == nullptr) {
            throw ConfigError("`xml`: " + path +
                              " has no Execution_Parameter_Set with a Device_Parameter_Set");
        }
        Execution_Parameter_Set().XML_deserialize(node);
        auto &device = Execution_Parameter_Set::SSD_Device_Configuration;
        if (device.Enabled_Preconditioning) {
            throw ConfigError("`xml`: " + path + ": Enabled_Preconditioning: found true; allowed: "
                              "false, because it needs MQSim's own workload");
        }
        // The host interface is not used. The streams are those of NVMe.
        device.HostInterface_Type = HostInterface_Types::NVME;
    }

    void build(SSD_Components::Caching_Mode mode) {
        engine().Reset();
        flow_ = whole_drive(mode);
        flows_.push_back(&flow_);
        auto &device = Execution_Parameter_Set::SSD_Device_Configuration;
        drive_ = std::make_unique<SSD_Device>(&device, &flows_);
        auto *interface =
            static_cast<SSD_Components::Host_Interface_NVMe *>(drive_->Host_interface);
        streams_ = new Streams(interface, *this);
        delete interface->input_stream_manager;
        interface->input_stream_manager = streams_;
        using Units = Utils::Logical_Address_Partitioning_Unit;
        streams_->Create_new_stream(flow_.Priority_Class, Units::Start_lha_available_to_flow(0),
                                    Units::End_lha_available_to_flow(0), 0, 1, 0, 1);
        arrivals_ = std::make_unique<Arrivals>(streams_);
        engine().AddObject(arrivals_.get());
        // As Engine::Start_simulation begins.
        engine().started = true;
        for (auto &object : engine()._ObjectList) {
            if (!object.second->IsTriggersSetUp()) {
                object.second->Setup_triggers();
            }
        }
        for (auto &object : engine()._ObjectList) {
            object.second->Validate_simulation_config();
        }
        for (auto &object : engine()._ObjectList) {
            object.second->Start_simulation();
        }
    }

    /// Runs the events up to `now`, as the loop of Engine::Start_simulation does.
    void catch_up(uint64_t now) {
        now_ = std::max(now, now_);
        MQSimEngine::EventTree &events = *engine()._EventList;
        while (events.Count > 0) {
            MQSimEngine::EventTreeNode *node = events.Get_min_node();
            if (node->Key > now_ / ps_in_ns) {
                return;
            }
            MQSimEngine::Sim_Event *event = node->FirstSimEvent;
            engine()._sim_time = event->Fire_time;
            while (event != nullptr) {
                if (!event->Ignore) {
                    event->Target_sim_object->Execute_simulator_event(event);
                }
                MQSimEngine::Sim_Event *consumed = event;
                event = event->Next_event;
                delete consumed;
            }
            events.Remove(node);
        }
    }

    void served(User_Request *request) override {
        const auto id =
            static_cast<uint32_t>(reinterpret_cast<uintptr_t>(request->IO_command_info));
        ready_.push_back(cxlab_completion{engine().Time() * ps_in_ns, id, 0});
        in_flight_ -= 1;
        delete request;
    }

    static cxlab::Statistics counters() {
        using SSD_Components::Stats;
        const auto number = [](auto value) { return static_cast<double>(value); };
        return {
            {"read_commands", number(Stats::IssuedReadCMD)},
            {"multiplane_read_commands", number(Stats::IssuedMultiplaneReadCMD)},
            {"interleave_read_commands", number(Stats::IssuedInterleaveReadCMD)},
            {"program_commands", number(Stats::IssuedProgramCMD)},
            {"multiplane_program_commands", number(Stats::IssuedMultiplaneProgramCMD)},
            {"interleave_program_commands", number(Stats::IssuedInterleaveProgramCMD)},
            {"erase_commands", number(Stats::IssuedEraseCMD)},
            {"suspended_programs", number(Stats::IssuedSuspendProgramCMD)},
            {"suspended_erases", number(Stats::IssuedSuspendEraseCMD)},
            {"flash_reads_for_mapping", number(Stats::Total_flash_reads_for_mapping)},
            {"flash_writes_for_mapping", number(Stats::Total_flash_writes_for_mapping)},
            {"cmt_hits", number(Stats::CMT_hits)},
            {"cmt_misses", number(Stats::CMT_miss)},
            {"gc_executions", number(Stats::Total_gc_executions)},
            {"gc_page_movements", number(Stats::Total_page_movements_for_gc)},
            {"wear_levelling_executions", number(Stats::Total_wl_executions)},
            {"wear_levelling_page_movements", number(Stats::Total_page_movements_for_wl)},
        };
    }

    uint64_t unit_ = 0;
    uint64_t queue_ = 0;
    uint64_t now_ = 0;
    uint64_t in_flight_ = 0;
    bool refused_ = false; ///< whether can_accept last said no
    IO_Flow_Parameter_Set_Synthetic flow_;
    std::vector<IO_Flow_Parameter_Set *> flows_;
    std::unique_ptr<SSD_Device> drive_;
    Streams *streams_ = nullptr; ///< of the drive's interface
    std::unique_ptr<Arrivals> arrivals_;
    std::deque<cxlab_completion> ready_;
    cxlab::Statistics before_;
};

} // namespace

CXLAB_EXPORT_MEDIUM(Medium)
