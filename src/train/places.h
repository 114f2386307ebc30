// Where a worker stands among the others of its job. The group lasts as long as its members stay
// the same; when one is lost, or another comes, everybody gets a place in the next one. Belongs to
// one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/group.h"
#include "collective/tree.h"
#include "net/address.h"
#include "net/tls.h"

namespace tandem::train {

// The parameter servers of a generation; none for a job without.
struct ServerPlaces {
  std::vector<net::Endpoint> endpoints;
  std::vector<net::Endpoint> former;  // That leave, and may have what the others need.
  std::string token;
  std::shared_ptr<const net::Tls> tls;  // What they are reached with; null: in the clear.
  std::uint64_t generation = 0;
};

struct Place {
  collective::Group group;
  // A checkpoint's directory to go on from when no member has a state yet; "": from the start.
  std::filesystem::path resume;
  collective::LaneEnds ends = {};  // How the members share the lanes; empty: equally.
  std::string owner = {};          // Whose the run directory must be (checkpoint/owner.h).
  ServerPlaces servers = {};
  // The state of all is lost with what others had of it: from `resume`, whatever this worker has.
  bool anew = false;
};

// How the last group ended for this worker.
enum class Parting : std::uint8_t {
  kNone,    // There was none.
  kAgreed,  // All members left it together, and those that go on have its state.
  kBroken,  // Another member was missed: this one may have what is to be saved.
};

class Places {
 public:
  virtual ~Places() = default;

  // Waits for the next place, and there for the other members; `waiting` is called a few times a
  // second. kPeerLost or kTimeout when the others did not come: then another place may follow.
  // kCancelled when this worker shall end.
  virtual Result<Place> next(Parting parting, const std::function<void()>& waiting) = 0;

  // Whether the next place is known, so that the members shall leave the group they are in. Cheap.
  virtual bool has_next() = 0;

  // Whether there can be another one at all; else the end of the group is the end of the worker.
  virtual bool may_follow() const = 0;

  // Of the last place.
  virtual std::uint64_t generation() const = 0;
};

// A single one, for as long as the group holds.
class OnePlace final : public Places {
 public:
  explicit OnePlace(Place place) : place_(std::move(place)) {}

  Result<Place> next(Parting, const std::function<void()>&) override { return std::move(place_); }
  bool has_next() override { return false; }
  bool may_follow() const override { return false; }
  std::uint64_t generation() const override { return 0; }

 private:
  Place place_;
};

}  // namespace tandem::train
