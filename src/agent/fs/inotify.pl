# Passes the kernel's file events (inotify(7)) to the agent unchanged: Node's own watcher drops overflow events and the cookies that connect the two
# halves of a rename. Arguments: the numbers of the system calls inotify_init1, inotify_add_watch and inotify_rm_watch. Reads frames from standard
# input (letter, number, length, bytes) and writes frames to standard output; ends with its input.
use strict;
use warnings;

my ($init, $add, $remove) = map { $_ + 0 } @ARGV;
my $number = syscall($init, 0x80800);    # IN_CLOEXEC | IN_NONBLOCK
die "inotify_init1: $!\n" if $number < 0;
open(my $queue, '<&=', $number) or die "inotify: $!\n";
$SIG{PIPE} = 'DEFAULT';

sub put {
    my ($letter, $id, $bytes) = @_;
    my $frame = pack('a1 N N', $letter, $id, length $bytes) . $bytes;
    for (my $at = 0; $at < length $frame;) {
        $at += syswrite(STDOUT, $frame, length($frame) - $at, $at) // exit 1;
    }
}

# The queue holds 16384 events of at most 272 bytes. The number of rounds is limited, or a busy disk would keep this loop running for ever.
sub drain {
    for (1 .. 80) {
        my $read = sysread($queue, my $bytes, 65536);
        last unless $read;
        put('E', 0, $bytes);
    }
}

put('R', 0, '');
my $input = '';
my $waiting = '';
vec($waiting, 0, 1) = 1;
vec($waiting, $number, 1) = 1;
while (1) {
    select(my $ready = $waiting, undef, undef, undef) >= 0 or next;
    drain() if vec($ready, $number, 1);
    next unless vec($ready, 0, 1);
    exit 0 unless sysread(STDIN, $input, 65536, length $input);
    while (length $input >= 9) {
        my ($letter, $id, $length) = unpack('a1 N N', $input);
        last if length $input < 9 + $length;
        my $bytes = substr($input, 9, $length);
        substr($input, 0, 9 + $length) = '';
        drain();    # earlier events go out before the answer to a command
        if ($letter eq 'A') {
            my ($mask, $path) = unpack('N a*', $bytes);
            my $watch = syscall($add, $number, $path, $mask);
            put('A', $id, pack('l>', $watch < 0 ? 0 - $! : $watch));
        }
        elsif ($letter eq 'D') { syscall($remove, $number, $id) }
        elsif ($letter eq 'S') { put('S', $id, '') }
    }
}
