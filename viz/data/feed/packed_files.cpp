#include "viz/data/feed/packed_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_members = 1 << 16;
constexpr std::size_t block = 1 << 16;  // bytes

using namespace std::string_view_literals;
constexpr std::array packed_starts{"\x1f\x8b"sv, "PK\x03\x04"sv, "\x28\xb5\x2f\xfd"sv,
                                   "\xfd"
                                   "7zXZ"sv};

struct Closing {
  void operator()(archive* each) const { archive_read_free(each); }
};
using Reading = std::unique_ptr<archive, Closing>;

bool starts_packed(std::string_view content) {
  for (const std::string_view start : packed_starts)
    if (content.starts_with(start)) return true;
  return false;
}

Reading reading() {
  Reading in{archive_read_new()};
  if (!in) throw std::bad_alloc{};
  archive_read_support_filter_all(in.get());
  archive_read_support_format_zip(in.get());
  archive_read_support_format_tar(in.get());
  archive_read_support_format_raw(in.get());
  return in;
}

/// Unpacks one file, whose members count towards a common limit.
class Unpacking {
 public:
  Unpacking(const std::filesystem::path& file, std::size_t most_bytes)
      : file_(file), most_(most_bytes) {}

  std::vector<PackedFile> unpack() {
    const Reading in = reading();
    check(archive_read_open_filename(in.get(), file_.c_str(), block), in.get());
    read_members(in.get(), file_.filename().string(), 0);
    return std::move(members_);
  }

 private:
  [[noreturn]] void fail(archive* in) const {
    const char* why = archive_error_string(in);
    throw UsageError(fmt::format("{}: can't be unpacked ({}); perhaps it was cut off",
                                 excerpt(file_.string()), why ? excerpt(why) : "damaged"));
  }
  void check(int status, archive* in) const {
    if (status < ARCHIVE_WARN) fail(in);
  }

  void read_members(archive* in, const std::string& outer, int depth) {
    archive_entry* entry = nullptr;
    for (;;) {
      const int status = archive_read_next_header(in, &entry);
      if (status == ARCHIVE_EOF) return;
      check(status, in);
      if (members_.size() == most_members)
        throw UsageError(
            fmt::format("{}: has more than {} members", excerpt(file_.string()), most_members));
      const bool raw = archive_format(in) == ARCHIVE_FORMAT_RAW;
      if (!raw && archive_entry_filetype(entry) != AE_IFREG) continue;
      const char* name = raw ? nullptr : archive_entry_pathname(entry);
      PackedFile member{name ? name : without_ending(outer), content_of(in)};
      if (depth == 0 && !raw && starts_packed(member.content)) {
        const Reading inner = reading();
        check(archive_read_open_memory(inner.get(), member.content.data(), member.content.size()),
              inner.get());
        read_members(inner.get(), member.name, depth + 1);
      } else {
        members_.push_back(std::move(member));
      }
    }
  }

  static std::string without_ending(const std::string& name) {
    return std::filesystem::path{name}.stem().string();
  }

  std::string content_of(archive* in) {
    std::string content;
    std::array<char, block> buffer{};
    for (;;) {
      const la_ssize_t read = archive_read_data(in, buffer.data(), buffer.size());
      if (read < 0) fail(in);
      if (read == 0) return content;
      taken_ += static_cast<std::size_t>(read);
      if (taken_ > most_)
        throw UsageError(fmt::format("{}: unpacks to more than {}; --memory raises the limit",
                                     excerpt(file_.string()), bytes_words(most_)));
      content.append(buffer.data(), static_cast<std::size_t>(read));
    }
  }

  const std::filesystem::path& file_;
  const std::size_t most_;
  std::size_t taken_ = 0;
  std::vector<PackedFile> members_;
};

struct ClosingWrite {
  void operator()(archive* each) const { archive_write_free(each); }
};

}  // namespace

bool is_packed(const std::filesystem::path& file) {
  std::array<char, 8> start{};
  std::ifstream in{file, std::ios::binary};
  in.read(start.data(), start.size());
  return starts_packed({start.data(), static_cast<std::size_t>(in.gcount())});
}

std::vector<PackedFile> unpack(const std::filesystem::path& file, std::size_t most_bytes) {
  return Unpacking{file, most_bytes}.unpack();
}

void pack(const std::filesystem::path& file, const std::vector<PackedFile>& members) {
  const std::unique_ptr<archive, ClosingWrite> out{archive_write_new()};
  const auto check = [&](int status) {
    if (status >= ARCHIVE_WARN) return;
    const char* why = archive_error_string(out.get());
    throw RunError(fmt::format("can't write {}: {}", file.string(), why ? why : "unknown error"));
  };
  check(archive_write_set_format_zip(out.get()));
  check(archive_write_open_filename(out.get(), file.c_str()));
  for (const PackedFile& member : members) {
    archive_entry* entry = archive_entry_new();
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> owned{entry, archive_entry_free};
    archive_entry_set_pathname(entry, member.name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(member.content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    check(archive_write_header(out.get(), entry));
    const la_ssize_t written =
        archive_write_data(out.get(), member.content.data(), member.content.size());
    if (written < 0) check(ARCHIVE_FATAL);
  }
  check(archive_write_close(out.get()));
}

}  // namespace lockstep::viz
