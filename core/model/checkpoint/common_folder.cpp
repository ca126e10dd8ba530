#include "core/model/checkpoint/common_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "core/base/error.h"
#include "core/comm/transport/control.h"

namespace lockstep {

namespace {

constexpr std::size_t piece = 4 << 20;  ///< bytes per message to rank 0

std::string random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

// A rank sees the folder if it finds rank 0's token there, an empty file with a random name.
CommonFolder::CommonFolder(Transport& ranks, const std::string& path) : ranks_(ranks) {
  std::string token;
  if (is_root()) {
    token = path + "/" + token_prefix + random_token();
    NewFile{token, NewFile::Mode::create, path}.finish();
  }
  token = broadcast_from_root(ranks, token);
  path_ = token.substr(0, token.rfind('/'));
  sees_ = is_root() || ::access(token.c_str(), F_OK) == 0;
  const std::vector<std::string> seen = gather_to_root(ranks, sees_ ? "1" : "0");
  for (std::size_t rank = 0; rank < seen.size(); ++rank)
    if (seen[rank] == "0") remote_.push_back(static_cast<int>(rank));
  if (is_root()) ::unlink(token.c_str());
}

std::vector<std::string> CommonFolder::write(
    const std::string& name, NewFile::Mode mode, const std::string& shown,
    const std::function<std::string(const WriteAt&)>& fill) {
  std::string text, error;
  try {
    if (!sees_) send_text(ranks_, 0, name);
    if (!name.empty() && sees_) {
      NewFile file{path_ + "/" + name, mode, shown};
      text = fill([&](std::uint64_t offset, const void* data, std::size_t bytes) {
        file.write_at(offset, data, bytes);
      });
      file.finish();
    } else if (!name.empty()) {
      text = fill([&](std::uint64_t offset, const void* data, std::size_t bytes) {
        for (std::size_t first = 0; first < bytes; first += piece) {
          const std::uint64_t at = offset + first;
          std::string message(sizeof at, '\0');
          std::memcpy(message.data(), &at, sizeof at);
          message.append(static_cast<const char*>(data) + first, std::min(piece, bytes - first));
          send_text(ranks_, 0, message);
        }
      });
    }
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  if (!sees_) send_text(ranks_, 0, "");
  if (is_root()) write_for_others(mode, shown, error);
  std::vector<std::string> texts = gather_to_root(ranks_, error + '\0' + text);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const std::size_t end = texts[rank].find('\0');
    if (end > 0) throw RunError(fmt::format("rank {}: {}", rank, texts[rank].substr(0, end)));
    texts[rank].erase(0, end + 1);
  }
  return texts;
}

void CommonFolder::write_for_others(NewFile::Mode mode, const std::string& shown,
                                    std::string& error) {
  for (const int rank : remote_) {
    const std::string name = receive_text(ranks_, rank);
    std::optional<NewFile> file;
    // After an error, receives the rest, so that the sending rank can continue.
    for (std::string message; !(message = receive_text(ranks_, rank)).empty();) {
      if (!error.empty()) continue;
      try {
        if (!file) file.emplace(path_ + "/" + name, mode, shown);
        std::uint64_t offset = 0;
        std::memcpy(&offset, message.data(), sizeof offset);
        file->write_at(offset, message.data() + sizeof offset, message.size() - sizeof offset);
      } catch (const std::exception& failure) {
        error = failure.what();
      }
    }
    try {
      if (file && error.empty()) file->finish();
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  }
}

}  // namespace lockstep
