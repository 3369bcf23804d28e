from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("customer", models.CharField(max_length=100)),
                ("rows", models.PositiveIntegerField(default=40)),
                ("paid", models.BooleanField(default=False)),
                ("exported", models.BooleanField(default=False, editable=False)),
            ],
        ),
    )
