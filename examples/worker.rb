#!/usr/bin/env ruby
# A worker in Ruby, over SQL alone, for the jobs that producer.rb adds: docs/how-to/other-languages.md explains it.
#
# It works until SIGTERM or SIGINT. It needs the gem pg (Debian: apt-get install ruby ruby-pg), and HOWDAH_DSN or DATABASE_URL.

require "json"
require "pg"
require "securerandom"
require "socket"

DSN = ENV["HOWDAH_DSN"] || ENV["DATABASE_URL"] || abort("set HOWDAH_DSN to the address of the database")
SLOTS = 4 # jobs that run at once, each in a thread
AHEAD = 4 # jobs that are claimed with them, and wait for a free slot: no longer than a second
LEASE = Float(ENV.fetch("WORKER_LEASE", 15)) # seconds of silence after which this worker counts as dead
GRACE = Float(ENV.fetch("WORKER_GRACE", 30)) # seconds in which running jobs may finish after SIGTERM
POLL = Float(ENV.fetch("WORKER_POLL", 1)) # seconds between two looks for jobs, where no notification came

GiveUp = Class.new(StandardError) # raised by a handler that need not be tried again
Stop = Class.new(StandardError) # raised in a handler whose job was cancelled, or is another's by now

# What runs here: a job type, and what is done with a job of it. The value is the job's result.
HANDLERS = {
  "example_rb_confirm" => ->(job) { { "sent" => "confirmation of order #{job.data.fetch("order")}" } },
  "example_rb_import" => lambda do |job|
    rows = job.data.fetch("rows")
    rows.times do |row|
      job.progress(100.0 * row / rows, "row #{row}")
      sleep job.data.fetch("pause", 0.01)
    end
    rows
  end,
  "example_rb_fetch" => ->(job) { job.attempt < 2 ? raise(IOError, "the line was cut") : "attempt #{job.attempt}" },
  "example_rb_charge" => ->(_) { raise GiveUp, "the card has expired" }
}

# A claimed job. The id and the token together are the claim; every write names both.
class Job
  attr_reader :id, :token, :type, :attempt, :since, :report
  attr_accessor :word, :reported, :ending

  def initialize(row)
    @id, @token, @type = row.values_at("id", "token", "job_type")
    @json = row["data"]
    @attempt = Integer(row["attempts"])
    @since = now
  end

  # Read by the handler's thread: data that Ruby cannot read is this job's failure.
  def data = @data ||= JSON.parse(@json)

  # For handlers: how far it is. Also where a handler learns that it has to stop, so call it often.
  def progress(percent, stage = nil)
    raise Stop, "asked to stop" if word
    @report = [Float(percent), stage && clean(stage.to_s)]
  end

  def claim = [id, token]
end

Ending = Struct.new(:kind, :value, :trace, :give_up)

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

def connect = PG.connect(DSN, connect_timeout: 10, keepalives_idle: 10, tcp_user_timeout: 30_000)

# An array, as PostgreSQL reads it.
def array(values) = PG::TextEncoder::Array.new.encode(values.map { |value| value&.to_s })

# What PostgreSQL can store as text.
def clean(text) = text.encode("UTF-8", invalid: :replace, undef: :replace).scrub.delete("\0")

def sqlstate(error) = error.result&.error_field(PG::PG_DIAG_SQLSTATE)

# The heartbeat: a thread and a connection of its own, so that no job and no slow query can hold it up.
class Heart
  attr_reader :boot, :replaced

  def initialize(name, &changed)
    @name, @changed = name, changed
    @boot = SecureRandom.uuid
    @lock, @bell = Mutex.new, ConditionVariable.new
    @db = connect
    register(@boot, again: false)
    @thread = Thread.new { beat until @stopped }
  end

  def beat_now = @lock.synchronize { @early = true; @bell.signal }

  def stop
    @lock.synchronize { @stopped = true; @bell.signal }
    @thread.join(LEASE / 3) || @thread.kill
    @db&.close
  end

  private

  def register(boot, again:)
    @db.exec_params(<<~SQL, [@name, boot, LEASE, array(HANDLERS.keys), Socket.gethostname, Process.pid, SLOTS, again])
      SELECT howdah.register_worker(p_worker_id => $1, p_incarnation => $2, p_lease => make_interval(secs => $3),
          p_job_types => $4, p_host => $5, p_pid => $6, p_capacity => $7, p_again => $8)
    SQL
  end

  def beat
    @lock.synchronize { @bell.wait(@lock, LEASE / 5) unless @early || @stopped; @early = false }
    return if @stopped
    @db ||= connect
    alive = @db.exec_params("SELECT howdah.heartbeat(p_worker_id => $1, p_incarnation => $2)", [@name, @boot]).getvalue(0, 0)
    register_anew if alive == "f"
  rescue StandardError => error # the next beat tries again
    warn "a heartbeat did not get through: #{error.message.strip}"
    @db&.close
    @db = nil
  end

  # We were declared dead, and have lost all our jobs.
  def register_anew
    # The same boot until there is an answer: if the answer to the first call is lost, the second must not find a stranger.
    @next_boot ||= SecureRandom.uuid
    register(@next_boot, again: true)
    @boot, @next_boot = @next_boot, nil
    @changed.call
  rescue PG::Error => error
    raise unless sqlstate(error) == "JQ006"
    @replaced = true # another process lives by our name
    @changed.call
  end
end

# Everything else, in one thread and over one connection: handlers have threads of their own, and never touch it.
class Worker
  def initialize
    @name = "#{Socket.gethostname[0, 60]}:#{Process.pid}:#{SecureRandom.hex(2)}"
    @held = {} # by claim: everything below
    @line = [] # claimed
    @running = {} # in a thread, by claim
    @ended = Queue.new # from the threads
    @unwritten = [] # ended, and the database has not confirmed it
    @next = Hash.new(0)
    @signals = 0
    @bell, @ring = IO.pipe
    @heart = Heart.new(@name) { @attend = true; ring }
    puts "#{@name} works"
  end

  def run
    %w[TERM INT].each { |signal| Signal.trap(signal) { @signals += 1; ring } }
    until over?
      begin
        @db ||= open
        turn
      rescue PG::Error, IOError, SystemCallError => error
        # No right to do this, or no such function: waiting will not mend it.
        raise if error.is_a?(PG::SyntaxErrorOrAccessRuleViolation)
        warn "the database: #{error.message.strip}"
        @db&.close
        @db = nil
        IO.select([@bell], nil, nil, 1) # what runs goes on meanwhile
      end
    end
    leave
    exit 1 if @heart.replaced
  end

  private

  def turn
    hear
    report
    finish
    attend if @attend || due?(:attend, LEASE / 5)
    call("SELECT count(*) FROM howdah.recover(p_worker_id => $1)", @name) if due?(:sweep, LEASE / 3)
    hand_back(stopping? ? @line.dup : @line.select { |job| now - job.since > 1 })
    unless stopping?
      begin_next
      look if free.positive? && (@look || due?(:poll, POLL))
    end
    IO.select([@db.socket_io, @bell], nil, nil, pause)
    @bell.read_nonblock(1000, exception: false)
  end

  # Claiming

  # From now on we can be woken. Nothing is lost if that fails: there is the poll.
  def open
    db = connect
    db.exec("LISTEN #{db.quote_ident(db.exec("SELECT howdah.channel()").getvalue(0, 0))}")
    @asleep, @look, @attend = false, true, true
    db
  end

  def look
    @look = false
    wanted = free + AHEAD
    rows = call(<<~SQL, @name, array(HANDLERS.keys), wanted, free, @heart.boot)
      SELECT id, token, job_type, data, attempts, status
      FROM howdah.claim(p_worker_id => $1, p_job_types => $2, p_batch_size => $3, p_start => $4, p_incarnation => $5)
    SQL
    rows.each do |row|
      job = @held[row.values_at("id", "token")] = Job.new(row)
      # A job with crashes is never started by the claim. It goes through the line.
      row["status"] == "running" ? run_in_thread(job) : @line << job
    end
    rows.ntuples < wanted ? add_sleeper : remove_sleeper
  rescue PG::Error => error
    raise unless sqlstate(error) == "JQ006"
    @heart.beat_now # it finds that we were declared dead, and registers again
  end

  # An enqueue notifies only types with a sleeping worker. So: sleep, look once more, and only then wait.
  def add_sleeper
    return if @asleep
    buckets = call("SELECT howdah.add_sleeper($1)", array(HANDLERS.keys)).getvalue(0, 0)
    @buckets = PG::TextDecoder::Array.new.decode(buckets)
    @asleep = @look = true
  end

  def remove_sleeper
    @look = true # the batch was full: there may be more
    call("SELECT howdah.remove_sleeper($1)", array(HANDLERS.keys)) if @asleep
    @asleep = false
  end

  # A notification is a hint. Whatever is missed here is found by the poll, and by the next attend.
  def hear
    @db.consume_input
    while (note = @db.notifies)
      word, what = note[:extra].split
      @look = true if word == "wake" && @asleep && @buckets.include?(what)
      @attend = true if word == "cancel" && @held.keys.any? { |id, _| id == what }
    end
  end

  # Running

  # Run only what start returns: the rest was cancelled, or taken back.
  def begin_next
    jobs = @line.first(free)
    return if jobs.empty?
    begun = call("SELECT id FROM howdah.start(p_ids => $1, p_tokens => $2)", *claims(jobs)).column_values(0)
    @line.shift(jobs.size)
    jobs.each { |job| begun.include?(job.id) ? run_in_thread(job) : @held.delete(job.claim) }
  end

  def run_in_thread(job)
    @running[job.claim] = Thread.new do
      job.ending = Ending.new(:completed, JSON.generate(HANDLERS.fetch(job.type).call(job)))
    rescue Stop => stop
      job.ending = Ending.new(:cancelled, stop.message)
    rescue Exception => error # whatever it is, it is this job's failure and not the worker's
      trace = clean(error.full_message(highlight: false))
      job.ending = Ending.new(:failed, clean("#{error.class}: #{error.message}"), trace, error.is_a?(GiveUp))
    ensure
      job.ending ||= Ending.new(:failed, "the thread that ran the job was ended")
      @ended << job
      ring
    end
  end

  # The last word of each job that has said something new, in one call.
  def report
    news = @held.values.select { |job| job.report != job.reported }
    return if news.empty?
    reports = news.map(&:report)
    call(<<~SQL, *claims(news), array(reports.map(&:first)), array(reports.map(&:last)))
      SELECT id FROM howdah.progress(p_ids => $1, p_tokens => $2, p_percents => $3, p_stages => $4)
    SQL
    news.zip(reports) { |job, said| job.reported = said }
  end

  # Ending

  def finish
    until @ended.empty?
      @unwritten << @ended.pop
      @running.delete(@unwritten.last.claim)
    end
    # If the answer is lost, they are written again. The second time nothing is changed, which is what we want.
    @unwritten.group_by { |job| job.ending.kind }.each { |kind, jobs| write(kind, jobs) }
  end

  WRITES = {
    completed: "SELECT id, 'completed' AS status FROM howdah.complete(p_ids => $1, p_tokens => $2, p_results => $3)",
    cancelled: "SELECT id, status FROM howdah.cancel_held(p_ids => $1, p_tokens => $2, p_reasons => $3)",
    failed: "SELECT id, status FROM howdah.fail(p_ids => $1, p_tokens => $2, p_errors => $3, p_tracebacks => $4, p_give_ups => $5)"
  }.freeze

  def write(kind, jobs)
    values = array(jobs.map { |job| job.ending.value })
    more = kind == :failed ? %i[trace give_up].map { |what| array(jobs.map { |job| job.ending[what] }) } : []
    statuses = call(WRITES.fetch(kind), *claims(jobs), values, *more).to_h { |row| row.values_at("id", "status") }
    jobs.each { |job| puts "#{job.type} #{job.id} attempt #{job.attempt}: #{statuses.fetch(job.id, "no longer ours")}" }
    forget(jobs)
  rescue PG::DataException, PG::ProgramLimitExceeded => error
    # A result that cannot be stored must not keep back those of the others, nor come again for ever.
    raise if kind == :failed
    jobs.first.ending = Ending.new(:failed, "the result cannot be stored: #{error.message.strip}") if jobs.one?
    jobs.each { |job| write(job.ending.kind, [job]) }
  end

  # What the database has to say about what we hold.
  def attend
    @attend = false
    words = call("SELECT id, token, state FROM howdah.check_held(p_worker_id => $1, p_ids => $2, p_tokens => $3)",
                 @name, *claims(@held.values))
    strangers, ours = words.map { |row| [row.values_at("id", "token"), row["state"]] }.partition { |_, word| word == "unknown" }
    ours.each do |claim, word|
      job = @held.fetch(claim)
      job.word = word # its handler learns of it when it next reports
      forget([job]) if @line.include?(job)
    end
    return if strangers.empty?
    # The answer to a claim was lost on its way to us. These jobs do not run anywhere, so they go back.
    ids, tokens = strangers.map(&:first).transpose.map { |each| array(each) }
    call("SELECT id FROM howdah.release_unknown(p_worker_id => $1, p_incarnation => $2, p_ids => $3, p_tokens => $4)", @name, @heart.boot, ids, tokens)
  end

  def hand_back(jobs, interrupted: false)
    return if jobs.empty?
    call("SELECT id FROM howdah.release(p_ids => $1, p_tokens => $2, p_interrupted => $3)", *claims(jobs), interrupted)
    forget(jobs)
  end

  # The goodbye. A job that has not finished within the grace is handed back, with no attempt spent.
  def leave
    @held.each_value { |job| job.word = "lost" }
    @heart.stop # or it would register us anew
    return unless @db
    hand_back(@held.values, interrupted: true)
    call("SELECT howdah.unregister_worker(p_worker_id => $1, p_incarnation => $2)", @name, @heart.boot)
    puts "#{@name} has left"
  rescue PG::Error => error
    warn "could not say goodbye; a sweep will take back what is left: #{error.message.strip}"
  end

  # Small things

  def call(statement, *arguments) = @db.exec_params(statement, arguments)

  def claims(jobs) = [array(jobs.map(&:id)), array(jobs.map(&:token))]

  def forget(jobs)
    jobs.each { |job| @held.delete(job.claim) }
    @line -= jobs
    @unwritten -= jobs
  end

  def free = SLOTS - @running.size

  def pause
    return 0 if (@look || @line.any?) && free.positive? && !stopping?
    @held.empty? ? [POLL, LEASE / 5].min : 0.3
  end

  def due?(what, every) = now >= @next[what] && (@next[what] = now + every)

  def ring = @ring.write_nonblock(".", exception: false)

  def stopping?
    return false unless @signals.positive? || @heart.replaced
    @deadline ||= now + GRACE
  end

  def over? = stopping? && (@held.empty? || now > @deadline || @signals > 1)
end

$stdout.sync = true
Worker.new.run if $PROGRAM_NAME == __FILE__
