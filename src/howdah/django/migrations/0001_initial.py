from django.db import migrations, models

from howdah.django.schema import Install, table


class Migration(migrations.Migration):
    # Its own connection and its own transaction.
    atomic = False
    initial = True
    dependencies = ()
    operations = (
        Install(),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("job_type", models.CharField(max_length=50, verbose_name="queue")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("claimed", "Claimed"),
                            ("running", "Running"),
                            ("completed", "Completed"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        max_length=20,
                    ),
                ),
                ("priority", models.IntegerField()),
                ("attempts", models.IntegerField()),
                ("max_attempts", models.IntegerField()),
                ("progress", models.IntegerField()),
                ("current_stage", models.TextField(null=True)),
                ("worker_id", models.CharField(max_length=100, null=True, verbose_name="worker")),
                ("created_at", models.DateTimeField(verbose_name="enqueued")),
                ("run_at", models.DateTimeField(verbose_name="due")),
                ("started_at", models.DateTimeField(null=True, verbose_name="started")),
                ("finished_at", models.DateTimeField(null=True, verbose_name="finished")),
                ("last_error", models.TextField(null=True)),
                ("key", models.TextField(null=True)),
                ("flow_key", models.TextField(null=True)),
                ("data", models.JSONField()),
                ("result", models.JSONField(null=True)),
                ("errors", models.JSONField(null=True)),
                ("meta", models.JSONField(null=True)),
            ],
            options={
                "db_table": table("job_details"),
                "ordering": ("-id",),
                "managed": False,
                "default_permissions": ("view", "change"),
            },
        ),
    )
