// Everything that names something: domains, registered strings, categories, threads, resources.
//
// A domain and a registered string are their text: making one twice gives the same handle, so a
// program that registers in its loop costs nothing, and destroying one leaves other users theirs.
#include "agent/nvtx/event_text.h"
#include "agent/nvtx/given_names.h"
#include "agent/nvtx/handlers.h"

namespace stepagent::nvtx {
namespace {

using core::NameId;

// Resources are not recorded; the handle only has to be one.
constinit char any_resource;

void OnNameCategoryA(uint32_t category, const char* name) noexcept {
  GiveCategoryName(core::kNoName, category, PlainText{name}.Intern());
}
void OnNameCategoryW(uint32_t category, const wchar_t* name) noexcept {
  GiveCategoryName(core::kNoName, category, WideText{name}.Intern());
}
void OnNameOsThreadA(uint32_t tid, const char* name) noexcept {
  GiveThreadName(tid, PlainText{name}.Intern());
}
void OnNameOsThreadW(uint32_t tid, const wchar_t* name) noexcept {
  GiveThreadName(tid, WideText{name}.Intern());
}

void OnDomainNameCategoryA(nvtxDomainHandle_t domain, uint32_t category,
                           const char* name) noexcept {
  GiveCategoryName(DomainOfHandle(domain), category, PlainText{name}.Intern());
}
void OnDomainNameCategoryW(nvtxDomainHandle_t domain, uint32_t category,
                           const wchar_t* name) noexcept {
  GiveCategoryName(DomainOfHandle(domain), category, WideText{name}.Intern());
}

nvtxStringHandle_t OnRegisterStringA(nvtxDomainHandle_t, const char* text) noexcept {
  return static_cast<nvtxStringHandle_t>(HandleOfString(PlainText{text}.Intern()));
}
nvtxStringHandle_t OnRegisterStringW(nvtxDomainHandle_t, const wchar_t* text) noexcept {
  return static_cast<nvtxStringHandle_t>(HandleOfString(WideText{text}.Intern()));
}
// No name is no domain: NULL, the default one.
nvtxDomainHandle_t DomainFor(NameId name) noexcept {
  return name == core::kNoName ? nullptr : static_cast<nvtxDomainHandle_t>(HandleOfDomain(name));
}
nvtxDomainHandle_t OnDomainCreateA(const char* name) noexcept {
  return DomainFor(PlainText{name}.Intern());
}
nvtxDomainHandle_t OnDomainCreateW(const wchar_t* name) noexcept {
  return DomainFor(WideText{name}.Intern());
}
void OnDomainDestroy(nvtxDomainHandle_t) noexcept {}
void OnInitialize(const void*) noexcept {}

nvtxResourceHandle_t OnResourceCreate(nvtxDomainHandle_t, nvtxResourceAttributes_t*) noexcept {
  return reinterpret_cast<nvtxResourceHandle_t>(&any_resource);
}
void OnResourceDestroy(nvtxResourceHandle_t) noexcept {}

}  // namespace

void PutCoreNames(const Slots& slots) noexcept {
  slots.Put<nvtxNameCategoryA_impl_fntype>(NVTX_CBID_CORE_NameCategoryA, OnNameCategoryA);
  slots.Put<nvtxNameCategoryW_impl_fntype>(NVTX_CBID_CORE_NameCategoryW, OnNameCategoryW);
  slots.Put<nvtxNameOsThreadA_impl_fntype>(NVTX_CBID_CORE_NameOsThreadA, OnNameOsThreadA);
  slots.Put<nvtxNameOsThreadW_impl_fntype>(NVTX_CBID_CORE_NameOsThreadW, OnNameOsThreadW);
}

void PutCore2Names(const Slots& slots) noexcept {
  slots.Put<nvtxDomainResourceCreate_impl_fntype>(NVTX_CBID_CORE2_DomainResourceCreate,
                                                  OnResourceCreate);
  slots.Put<nvtxDomainResourceDestroy_impl_fntype>(NVTX_CBID_CORE2_DomainResourceDestroy,
                                                   OnResourceDestroy);
  slots.Put<nvtxDomainNameCategoryA_impl_fntype>(NVTX_CBID_CORE2_DomainNameCategoryA,
                                                 OnDomainNameCategoryA);
  slots.Put<nvtxDomainNameCategoryW_impl_fntype>(NVTX_CBID_CORE2_DomainNameCategoryW,
                                                 OnDomainNameCategoryW);
  slots.Put<nvtxDomainRegisterStringA_impl_fntype>(NVTX_CBID_CORE2_DomainRegisterStringA,
                                                   OnRegisterStringA);
  slots.Put<nvtxDomainRegisterStringW_impl_fntype>(NVTX_CBID_CORE2_DomainRegisterStringW,
                                                   OnRegisterStringW);
  slots.Put<nvtxDomainCreateA_impl_fntype>(NVTX_CBID_CORE2_DomainCreateA, OnDomainCreateA);
  slots.Put<nvtxDomainCreateW_impl_fntype>(NVTX_CBID_CORE2_DomainCreateW, OnDomainCreateW);
  slots.Put<nvtxDomainDestroy_impl_fntype>(NVTX_CBID_CORE2_DomainDestroy, OnDomainDestroy);
  slots.Put<nvtxInitialize_impl_fntype>(NVTX_CBID_CORE2_Initialize, OnInitialize);
}

}  // namespace stepagent::nvtx
