#include "ps/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "optim/clip.h"

namespace tandem::ps {
namespace {

TEST(Slices, CoverTheVectorInBlocksOfAboutEqualSize) {
  for (const std::size_t floats : {0UL, 1UL, 1023UL, 1024UL, 5000UL, 1'000'003UL}) {
    for (const std::size_t servers : {1UL, 2UL, 3UL, 7UL}) {
      const std::vector<Bucket> slices = cut_slices(floats, servers);
      ASSERT_EQ(slices.size(), servers);
      std::size_t end = 0;
      for (const Bucket& slice : slices) {
        EXPECT_EQ(slice.begin, end);
        EXPECT_TRUE(slice.begin % optim::kSquaresBlock == 0 || slice.begin == floats);
        EXPECT_LE(slice.end - slice.begin, floats / servers + optim::kSquaresBlock);
        end = slice.end;
      }
      EXPECT_EQ(end, floats);
    }
  }
}

TEST(Pieces, CoverTheirSliceOnceBucketByBucket) {
  const std::vector<Bucket> buckets = {
      {60'000, 130'000}, {10, 60'000}, {0, 10}, {130'000, 130'007}};
  const Bucket slice{1024, 130'007};
  std::vector<int> covered(130'007);
  std::size_t last_bucket = 0;
  for (const Piece& piece : cut_pieces(slice, buckets)) {
    EXPECT_LT(piece.begin, piece.end);
    EXPECT_LE(piece.end - piece.begin, kPieceFloats);
    EXPECT_GE(piece.bucket, last_bucket);
    last_bucket = piece.bucket;
    for (std::size_t i = piece.begin; i < piece.end; ++i) ++covered[i];
  }
  EXPECT_TRUE(std::all_of(covered.begin(), covered.begin() + 1024, [](int n) { return n == 0; }));
  EXPECT_TRUE(std::all_of(covered.begin() + 1024, covered.end(), [](int n) { return n == 1; }));
}

TEST(Pieces, OfAnEmptySliceAreNone) {
  const std::vector<Bucket> buckets = {{0, 10}};
  EXPECT_TRUE(cut_pieces({10, 10}, buckets).empty());
}

}  // namespace
}  // namespace tandem::ps
