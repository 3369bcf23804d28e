#!/usr/bin/env ruby
# An app in Ruby that enqueues in its own transaction: an order and the job that confirms it are stored together, or not at all.
#
# It needs the gem pg (Debian: apt-get install ruby ruby-pg), and HOWDAH_DSN or DATABASE_URL. worker.rb runs the jobs.

require "json"
require "pg"

DSN = ENV["HOWDAH_DSN"] || ENV["DATABASE_URL"] || abort("set HOWDAH_DSN to the address of the database")
OutOfStock = Class.new(StandardError)

def enqueue(db, type, data, key: nil)
  row = db.exec_params(<<~SQL, [type, JSON.generate(data), key]).first
    SELECT id, created FROM howdah.enqueue(p_job_type => $1, p_data => $2, p_key => $3)
  SQL
  [row["id"], row["created"] == "t"]
end

def place_order(db, item)
  db.transaction do
    order = db.exec_params("INSERT INTO example_rb_orders (item) VALUES ($1) RETURNING id", [item]).getvalue(0, 0)
    id, = enqueue(db, "example_rb_confirm", { order: Integer(order) })
    raise OutOfStock, "we are out of #{item}s" if item == "unicorn"
    id
  end
end

db = PG.connect(DSN)
# The app's own table. (A temporary one, so that the example leaves nothing behind.)
db.exec("CREATE TEMPORARY TABLE example_rb_orders (id serial, item text)")

place_order(db, "teapot")
puts "teapot: ordered, and its confirmation is enqueued"
begin
  place_order(db, "unicorn")
rescue OutOfStock => error
  puts "unicorn: #{error.message}, and nothing is enqueued"
end

# With a key, a second click finds the job of the first one, for as long as that has not ended.
2.times do
  _, created = enqueue(db, "example_rb_import", { rows: 3 }, key: "nightly")
  puts "import: #{created ? "enqueued" : "was enqueued before"}"
end

orders = db.exec("SELECT count(*) FROM example_rb_orders").getvalue(0, 0)
puts "orders: #{orders}"
