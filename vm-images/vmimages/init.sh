#!/bin/busybox sh
# PID 1 of a guest: no initramfs, no systemd. Mounts what a system has mounted, finds the drives by their NVMe serial
# (their names race), and hands over to /job/run. All that is particular to one run lies on the drive "job".
export PATH=/job/site/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-linux}" LC_ALL=C.UTF-8
export PYTHONDONTWRITEBYTECODE=1 OUT=/run/out
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev 2>/dev/null
$b mkdir -p /dev/pts /dev/shm
$b mount -t devpts devpts /dev/pts
$b mount -t tmpfs tmpfs /dev/shm
$b mount -t tmpfs tmpfs /run
$b mount -t tmpfs -o mode=1777 tmpfs /tmp
$b mount -t tracefs tracefs /sys/kernel/tracing
$b mount -t debugfs debugfs /sys/kernel/debug
$b mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
$b mount -t bpf bpf /sys/fs/bpf
$b ip link set lo up
$b hostname guest
$b mkdir -p $OUT /run/lock

drive() { # serial -> device, waiting up to 20 s
  i=0
  while [ $i -lt 400 ]; do
    for c in /sys/class/nvme/nvme*; do
      if $b grep -q "^$1 *$" $c/serial 2>/dev/null; then
        for n in $c/nvme*n* /sys/block/${c##*/}n*; do
          n=${n##*/}; [ -b /dev/$n ] && { echo /dev/$n; return 0; }
        done
      fi
    done
    $b sleep 0.05; i=$((i+1))
  done
  return 1
}

rc=127
if $b mount -t ext4 -o ro "$(drive job)" /job && $b mount -t ext4 -o ro "$(drive kernel)" /kernel; then
  $b stty -F /dev/ttyS1 raw -echo 2>/dev/null
  cd /job
  ./run < /dev/null
  rc=$?
else
  echo "guest: the drives job and kernel are not there" > /dev/console
fi
results=$($b grep -l "^out *$" /sys/class/nvme/nvme*/serial 2>/dev/null)
[ -n "$results" ] && $b tar -C $OUT -cf - . | $b dd of="$(drive out)" bs=64k 2>/dev/null
$b sync
echo "
{\"event\": \"exit\", \"status\": $rc, \"uptime\": \"$($b cut -d' ' -f1 /proc/uptime)\"}" > /dev/ttyS1
$b poweroff -f
