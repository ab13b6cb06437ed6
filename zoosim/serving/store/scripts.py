"""Lua scripts: operations on a log that its server does in one step, which nothing comes between."""

# Why a lease on the server, and no election: services know nothing of one another, and what would do harm if two of
# them did it is compared with the lease again, in the script that does it. The lease ends by the server's clock alone,
# so the clocks of machines need not agree. The time of the leader expires with it: nobody should go on by one that is
# not renewed.
LEAD = """
local leader = redis.call('GET', KEYS[1])
local time, age = redis.call('GET', KEYS[2]), tonumber(ARGV[2]) - redis.call('PTTL', KEYS[2])
local said = {0, time or '0', math.max(0, math.min(age, tonumber(ARGV[2])))}
if leader and leader ~= ARGV[1] then return said end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if ARGV[3] ~= '0' then redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2]) end
said[1] = 1
return said
"""
"""Take the lease where nobody has it, or renew it, and say the time by the clock of the service that has it.

Returns whether this service leads, the time by the one that leads, or led just now, and how many milliseconds ago it
said so; 0 for no time.
"""

# Why an append is one script. Positions must follow one another without a gap, each key must come once, and of a batch
# all rows or none must be there, whatever other services append and wherever a connection breaks. The server runs a
# script whole, with nothing between its commands.
#
# An append whose answer got lost is sent again under the same number. Rows without a key, such as ticks, would be there
# twice then, so the script remembers its last answer to each service. A number below that is the late arrival of a
# request whose sender has given up on it and gone on: appended now, it would be a row that nobody knows of.
#
# A server that syncs once a second may come back without rows that it acknowledged, which services have decided and
# learned by. So a service says which row it stored last. That its position is taken is not enough, as another service
# may have stored other rows there since: the seal must be the same. A row may also have been removed for its age: then
# the oldest row stands behind it. A row whose key or body was replaced has another seal; `was` keeps the first one, by
# which whoever stored the row goes on.
APPEND = """
local answered = redis.call('HMGET', KEYS[3], 'number', 'positions', 'seal')
if answered[1] == ARGV[1] then return {answered[2], answered[3]} end
if answered[1] and tonumber(answered[1]) > tonumber(ARGV[1]) then return 'late' end
if ARGV[2] ~= '0' then
  local known = redis.call('XRANGE', KEYS[1], ARGV[2] .. '-0', ARGV[2] .. '-0')[1]
  if known then
    if known[2][10] ~= ARGV[3] and known[2][12] ~= ARGV[3] then return 'lost' end
  else
    local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
    if not oldest or tonumber(string.match(oldest[1], '^%d+')) < tonumber(ARGV[2]) then return 'lost' end
  end
end
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local seq, time, seal = 0, '0', ARGV[3]
if newest then seq, time = tonumber(string.match(newest[1], '^%d+')), newest[2][2] end
local positions = {}
for i = 5, #ARGV, 5 do
  local key = ARGV[i + 2]
  if key ~= '' and redis.call('HEXISTS', KEYS[2], key) == 1 then
    positions[#positions + 1] = 0
  else
    seq = seq + 1
    if tonumber(ARGV[i]) > tonumber(time) then time = ARGV[i] end
    local place = string.format('%.0f', seq)
    seal = redis.sha1hex(place .. ' ' .. time .. ' ' .. ARGV[i + 4])
    if key ~= '' then redis.call('HSET', KEYS[2], key, place .. '-0') end
    redis.call('XADD', KEYS[1], place .. '-0', 'time', time, 'kind', ARGV[i + 1], 'key', key, 'body', ARGV[i + 3],
               'seal', seal)
    positions[#positions + 1] = place
  end
end
local answer = table.concat(positions, ' ')
redis.call('HSET', KEYS[3], 'number', ARGV[1], 'positions', answer, 'seal', seal)
redis.call('EXPIRE', KEYS[3], ARGV[4])
return {answer, seal}
"""
"""Append rows whose keys are new, all or none; return the position of each, 0 for the others, and the newest's seal.

The same number of a service gets the same answer again, and appends nothing. Where the newest row that the service
stored is not in the log any more, or another stands in its place, nothing is appended; where its body was replaced, it
says by which seal it was stored.
"""

# The lease is compared here, and not by the service before it asks: a service that was stopped in between, as in a
# paused virtual machine, may have lost it by the time its request arrives.
REMOVE = """
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return 'fenced' end
for i = 3, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end
return redis.call('XTRIM', KEYS[1], 'MINID', ARGV[2])
"""
"""Remove the rows before an entry, and their keys."""

CHANGE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'fenced' end
return redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))
"""
"""Do one command with a key."""

# Entries of a stream cannot be changed, so rows are replaced in a copy. It is made a part at a time, as a script keeps
# all services waiting, and it expires: a process that dies halfway leaves no second log in the server's memory. Times
# and positions stay, so a replaced row keeps its place for snapshots and products' versions that name it.
COPY = """
local replaced = {}
for i = 3, #ARGV, 4 do replaced[ARGV[i]] = {ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]} end
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  local name, fields = entry[1], entry[2]
  if replaced[name] then
    local key, body, digest = unpack(replaced[name])
    local seal = redis.sha1hex(string.match(name, '^%d+') .. ' ' .. fields[2] .. ' ' .. digest)
    fields = {'time', fields[2], 'kind', fields[4], 'key', key, 'body', body, 'seal', seal,
              'was', fields[12] or fields[10]}
  end
  redis.call('XADD', KEYS[2], name, unpack(fields))
end
redis.call('EXPIRE', KEYS[2], 60)
"""
"""Copy the entries of a stream from one to another, with other keys and bodies in some of them."""

# What was appended, or removed, while the copy was made is repeated on it here, where nothing can come between. Copies
# of two processes cannot be merged: the later one holds the rows that the former replaced as they were. So each swap
# counts, and a copy that was begun before another swap is made anew. So is one that lacks the log's oldest rows: the
# process that makes it was suspended until it expired, and the next part began another stream.
SWAP = """
local is_changed = (redis.call('GET', KEYS[3]) or '') ~= ARGV[1]
if is_changed or redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
local function first(key) return redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1][1] end
local oldest = first(KEYS[1])
if tonumber(string.match(first(KEYS[2]), '^%d+')) > tonumber(string.match(oldest, '^%d+')) then return 0 end
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. ARGV[2], '+')) do
  redis.call('XADD', KEYS[2], entry[1], unpack(entry[2]))
end
redis.call('XTRIM', KEYS[2], 'MINID', oldest)
redis.call('RENAME', KEYS[2], KEYS[1])
redis.call('PERSIST', KEYS[1])
redis.call('INCR', KEYS[3])
return 1
"""
"""Replace a stream by its copy, with what came behind an entry, and without what was removed meanwhile.

Nothing is done where another copy has taken its place since this one was begun, or the copy has expired.
"""
