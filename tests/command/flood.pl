#!/usr/bin/perl
# Clients for tests of the viewer's server.
#   flood.pl spans PORT RUN RANK MEGABYTES   streams spans as a rank would; prints how many it sent
#   flood.pl lines PORT RUN RANK MEGABYTES streams lines that are not events
#   flood.pl idle PORT COUNT opens connections and sends nothing
#   flood.pl file MEGABYTES                  prints spans
#   flood.pl wrong PORT sends 18 wrong hellos; prints how many were refused
use strict;
use warnings;
use IO::Socket::INET;

my ($what, $port, @rest) = @ARGV;
$SIG{PIPE} = 'IGNORE';
$| = 1;

sub peer {
  return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 60);
}

sub send_all {
  my ($peer, $bytes) = @_;
  for (my $at = 0; $at < length $bytes;) {
    my $count = syswrite $peer, $bytes, length($bytes) - $at, $at;
    return 0 unless defined $count;
    $at += $count;
  }
  return 1;
}

# Returns the next block of lines, and counts its spans.
my $spans = 0;
sub block {
  my $rank = shift;
  my $text = '';
  for (1 .. 1000) {
    my $step = int $spans / 200;
    $text .= sprintf '{"ph":"X","name":"PP:%dF%d","cat":"forward","pid":%d,"tid":0,"ts":%d.000000,"dur":9.500000,'
      . '"args":{"step":%d,"stage":%d,"microbatch":%d}},' . "\n", $rank, $spans % 8, $rank, 10 * $spans, $step,
      $rank, $spans % 8;
    $spans++;
  }
  return $text;
}

if ($what eq 'idle') {
  my @peers = map { peer() } 1 .. $rest[0];
  sleep 1000;
} elsif ($what eq 'file') {
  for (my $sent = 0; $sent < $port * 1e6;) {
    my $text = block(0);
    print $text;
    $sent += length $text;
  }
} elsif ($what eq 'wrong') {
  my $args = '{"ph":"M","args":';
  my $turned_away = 0;
  for my $hello ("\n", "[\n", ",\n", "null\n", "{}\n", "[1,2]\n", "\"hello\"\n", "\0\0\0\n", "\xff\xfe{}\n",
      "GET / HTTP/1.1\r\n\r\n", "${args}7}\n", "$args\{}}\n", "$args\{\"rank\":-1}}\n",
      "$args\{\"rank\":\"0\"}}\n", "$args\{\"rank\":4294967296}}\n", $args . '[' x 20000 . "\n",
      'x' x 100000, "$args\{\"rank\"") {
    my $peer = peer() or next;
    send_all($peer, $hello);
    my $answer = <$peer>;    # undefined if the connection ends
    $turned_away++ if !defined $answer || $answer =~ /^refused: /;
  }
  print "$turned_away\n";
} else {
  my ($run, $rank, $megabytes) = @rest;
  my $peer = peer() or die "no viewer";
  send_all($peer, qq({"ph":"M","name":"lockstep","pid":$rank,"tid":0,"args":{"format":1,"run":"$run","lesson":"flood",)
    . qq("rank":$rank,"ranks":3,"mesh":{"pp":3},"clock":"modelled"}},\n));
  my $answer = <$peer>;
  die 'not accepted: ' . ($answer // '') . "\n" unless defined $answer && $answer eq "resume 0\n";
  send_all($peer, "[\n");
  my $lines = "this is no event\n" x 4000;
  for (my $sent = 0; $sent < $megabytes * 1e6;) {
    my $text = $what eq 'spans' ? block($rank) : $lines;
    send_all($peer, $text) or exit 0;
    $sent += length $text;
  }
  send_all($peer, qq({"ph":"i","name":"end","s":"p","pid":$rank,"tid":0,"ts":0,"args":{"spans":$spans}},\n));
  print "$spans\n";
  <$peer>;    # waits until the viewer closes the connection
}
