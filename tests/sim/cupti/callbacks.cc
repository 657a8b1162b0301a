// The subscription, and API, resource and synchronise callbacks.
#include <cstring>
#include <mutex>
#include <string>

#include "common/clock.h"
#include "common/settings.h"
#include "cupti/state.h"

namespace stepagent::sim {
namespace {

// Both reasons why a frame of an API function comes to us.
struct Interest {
  std::atomic<bool> callback{false};
  std::atomic<bool> record{false};
};
Interest g_interest[kDomainCount][kMaxCallbackId];
std::mutex g_interest_mutex;

struct Subscription {
  std::atomic<CUpti_CallbackFunc> callback{nullptr};
  std::atomic<void*> user_data{nullptr};
};
Subscription g_subscription;

void Publish(uint32_t domain, uint32_t cbid) {
  if (Driver() == nullptr) return;
  const Interest& interest = g_interest[domain][cbid];
  Driver()->set_callback(ToolSlot(), domain, cbid,
                         interest.callback.load(std::memory_order_relaxed) ||
                             interest.record.load(std::memory_order_relaxed));
}

void SetCallbackOn(uint32_t domain, uint32_t cbid, bool on) {
  const std::lock_guard lock(g_interest_mutex);
  g_interest[domain][cbid].callback.store(on, std::memory_order_relaxed);
  Publish(domain, cbid);
}

void Invoke(uint32_t domain, uint32_t cbid, const void* data) {
  static std::atomic<uint64_t>& invoked = Counter("cupti.callbacks");
  CUpti_CallbackFunc callback = g_subscription.callback.load(std::memory_order_acquire);
  if (callback == nullptr) return;
  Add(invoked);
  callback(g_subscription.user_data.load(std::memory_order_relaxed),
           static_cast<CUpti_CallbackDomain>(domain), cbid, data);
}

bool WantsCallback(uint32_t domain, uint32_t cbid) {
  return g_interest[domain][cbid].callback.load(std::memory_order_relaxed);
}

CUpti_CallbackData DataOf(int slot, ApiFrame* frame, CUpti_ApiCallbackSite site) {
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = frame->function_name;
  data.functionParams = frame->params;
  data.functionReturnValue = site == CUPTI_API_EXIT ? frame->return_value : nullptr;
  data.symbolName = frame->symbol_name;
  data.context = frame->context;
  data.contextUid = frame->context_uid;
  data.correlationData = &frame->correlation_data[slot];
  data.correlationId = frame->correlation_id;
  return data;
}

// Fields that the frame has not got: 11.x leaves garbage in symbolName of other functions.
constexpr char kGarbage[] = "\x01garbage";

CUptiResult CheckSubscriber(CUpti_SubscriberHandle subscriber) {
  const bool is_ours = subscriber == reinterpret_cast<CUpti_SubscriberHandle>(&g_subscription) &&
                       g_subscription.callback.load(std::memory_order_relaxed) != nullptr;
  return is_ours ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult Subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                      void* user_data, const char* name, char* holder, size_t holder_bytes) {
  if (subscriber == nullptr || callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  static const int64_t cost_ns = SettingInt("SUBSCRIBE", 1000000);
  SleepUntil(MonotonicNs() + cost_ns);
  const std::string full =
      name == nullptr || *name == '\0' ? "CUPTI" : std::string("CUPTI for ") + name;
  if (!Driver()->claim_subscriber(&g_subscription, full.c_str(), holder, holder_bytes)) {
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  g_subscription.user_data.store(user_data, std::memory_order_relaxed);
  // Pairs with the acquire in Invoke.
  g_subscription.callback.store(callback, std::memory_order_release);
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&g_subscription);
  return CUPTI_SUCCESS;
}

void SetDomain(uint32_t domain, bool on) {
  for (uint32_t cbid = 1; cbid < kMaxCallbackId; ++cbid) SetCallbackOn(domain, cbid, on);
}

}  // namespace

void OnApiEnter(int slot, ApiFrame* frame) {
  const Interest& interest = g_interest[frame->domain][frame->cbid];
  if (interest.record.load(std::memory_order_relaxed)) frame->start_stamp[slot] = HostStampNs();
  if (!interest.callback.load(std::memory_order_relaxed)) return;
  CUpti_CallbackData data = DataOf(slot, frame, CUPTI_API_ENTER);
  if (data.symbolName == nullptr && ThePersonality().api_version < 19) data.symbolName = kGarbage;
  Invoke(frame->domain, frame->cbid, &data);
}

void OnApiExit(int slot, ApiFrame* frame) {
  if (WantsCallback(frame->domain, frame->cbid)) {
    const CUpti_CallbackData data = DataOf(slot, frame, CUPTI_API_EXIT);
    Invoke(frame->domain, frame->cbid, &data);
  }
  WriteExternalCorrelation(*frame);
  // A record needs a start: kinds enabled inside the call begin with the next one.
  if (frame->start_stamp[slot] != 0 &&
      g_interest[frame->domain][frame->cbid].record.load(std::memory_order_relaxed)) {
    WriteApiRecord(*frame, frame->start_stamp[slot], HostStampNs());
  }
}

void OnResource(uint32_t cbid, const ResourceEvent* event) {
  if (!WantsCallback(kDomainResource, cbid)) return;
  CUpti_ModuleResourceData module{event->module_id, event->module_bytes,
                                  static_cast<const char*>(event->module_image)};
  CUpti_GraphData graph{};
  graph.graph = event->graph;
  graph.originalGraph = event->original_graph;
  graph.node = event->node;
  graph.originalNode = event->original_node;
  graph.nodeType = static_cast<CUgraphNodeType>(event->node_type);
  graph.dependency = event->dependency;
  graph.graphExec = event->exec;
  CUpti_ResourceData data{};
  data.context = event->context;
  data.resourceHandle.stream = event->stream;
  if (cbid >= CUPTI_CBID_RESOURCE_GRAPH_CREATED) data.resourceDescriptor = &graph;
  if (event->module_id != 0) data.resourceDescriptor = &module;
  Invoke(kDomainResource, cbid, &data);
}

void OnSynchronized(uint32_t cbid, CUcontext context, CUstream stream) {
  if (!WantsCallback(kDomainSynchronize, cbid)) return;
  const CUpti_SynchronizeData data{context, stream};
  Invoke(kDomainSynchronize, cbid, &data);
}

void RecordApi(uint32_t domain, uint32_t cbid, bool on) {
  if (cbid >= kMaxCallbackId) return;
  const std::lock_guard lock(g_interest_mutex);
  g_interest[domain][cbid].record.store(on, std::memory_order_relaxed);
  Publish(domain, cbid);
}

void RecordApis(uint32_t domain, bool on) {
  for (uint32_t cbid = 1; cbid < kMaxCallbackId; ++cbid) RecordApi(domain, cbid, on);
}

void DropSubscription() {
  for (uint32_t domain = 1; domain < kDomainCount; ++domain) SetDomain(domain, false);
  g_subscription.callback.store(nullptr, std::memory_order_release);
  if (Driver() != nullptr) Driver()->release_subscriber(&g_subscription);
}

}  // namespace stepagent::sim

using namespace stepagent::sim;  // NOLINT: exported C functions follow

SIM_CUPTI(cuptiSubscribe,
          (CUpti_SubscriberHandle * subscriber, CUpti_CallbackFunc callback, void* userdata),
          return Subscribe(subscriber, callback, userdata, "", nullptr, 0);)

SIM_CUPTI(cuptiSubscribe_v2,
          (CUpti_SubscriberHandle * subscriber, CUpti_CallbackFunc callback, void* userdata,
           CUpti_SubscriberParams* pParams),
          {
            if (pParams == nullptr) {
              return Subscribe(subscriber, callback, userdata, "", nullptr, 0);
            }
            if (pParams->structSize < sizeof(CUpti_SubscriberParams)) {
              return CUPTI_ERROR_INVALID_PARAMETER;
            }
            return Subscribe(subscriber, callback, userdata, pParams->subscriberName,
                             pParams->oldSubscriberName, pParams->oldSubscriberSize);
          })

SIM_CUPTI(cuptiUnsubscribe, (CUpti_SubscriberHandle subscriber), {
  const CUptiResult result = CheckSubscriber(subscriber);
  if (result == CUPTI_SUCCESS) DropSubscription();
  return result;
})

SIM_CUPTI(cuptiEnableCallback,
          (uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
           CUpti_CallbackId cbid),
          {
            const CUptiResult result = CheckSubscriber(subscriber);
            if (result != CUPTI_SUCCESS) return result;
            if (domain <= 0 || domain >= kDomainCount || cbid == 0 || cbid >= kMaxCallbackId) {
              return CUPTI_ERROR_INVALID_PARAMETER;
            }
            SetCallbackOn(domain, cbid, enable != 0);
            return CUPTI_SUCCESS;
          })

SIM_CUPTI(cuptiEnableDomain,
          (uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain), {
            const CUptiResult result = CheckSubscriber(subscriber);
            if (result != CUPTI_SUCCESS) return result;
            if (domain <= 0 || domain >= kDomainCount) return CUPTI_ERROR_INVALID_PARAMETER;
            SetDomain(domain, enable != 0);
            return CUPTI_SUCCESS;
          })

SIM_CUPTI(cuptiEnableAllDomains, (uint32_t enable, CUpti_SubscriberHandle subscriber), {
  const CUptiResult result = CheckSubscriber(subscriber);
  if (result != CUPTI_SUCCESS) return result;
  for (uint32_t domain = 1; domain < kDomainCount; ++domain) SetDomain(domain, enable != 0);
  return CUPTI_SUCCESS;
})

SIM_CUPTI(cuptiGetCallbackState,
          (uint32_t * enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
           CUpti_CallbackId cbid),
          {
            const CUptiResult result = CheckSubscriber(subscriber);
            if (result != CUPTI_SUCCESS) return result;
            if (enable == nullptr || domain <= 0 || domain >= kDomainCount ||
                cbid >= kMaxCallbackId) {
              return CUPTI_ERROR_INVALID_PARAMETER;
            }
            *enable = WantsCallback(domain, cbid) ? 1 : 0;
            return CUPTI_SUCCESS;
          })
